"""
Read lecture files.

Holds: which files are lectures (``selection``), readers for each file format (``formats``), the configuration of the
book that lectures belong to (``book``), and the settings in a lecture's own metadata (``own_settings``).
In: a path. Out: a :class:`~pytest_lecturecheck.model.lecture.Lecture`, a book's layer of settings, or a
``LectureReadError`` that names file, line and reason. No file is ever written, and no code of a project is executed.
Start reading at ``reading.read_lecture``.
"""
