"""Display: header, forecast and progress."""
