"""Project settings for pytest; the plugin itself comes by its entry point."""
