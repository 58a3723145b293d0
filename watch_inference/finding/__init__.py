"""Finding the job: which folder, files and processes are meant, and by which rule."""
