"""Where kernels run: on this machine, or as steps of a batch scheduler; behind one port."""
