"""Memory of a process tree: one module for each operating system behind one selection."""
