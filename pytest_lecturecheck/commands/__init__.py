"""The parts of the ``lecturecheck`` command: each knows its words, and gives the text that is to be printed."""
