"""Read what ``jax.profiler`` writes: a trace's file becomes figures of a cell."""
