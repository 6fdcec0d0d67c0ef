"""Case files, the commands that show cases, and the gate on files."""
