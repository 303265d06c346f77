"""What a sweep leaves on the disk: files, folders, locks, and what its name stands for."""
