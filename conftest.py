"""Settings of this project for pytest; the plugin itself is loaded by its entry point."""
