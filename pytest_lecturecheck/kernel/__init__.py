"""Run lectures in kernels: start, client, agent inside the kernel, teardown."""
