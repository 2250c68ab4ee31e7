"""Messages are kept as mystmd keeps them."""

from pytest_lecturecheck.kernel.messages.message_log import MessageLog


def log_of(*messages):
    log = MessageLog()
    log.begin(0)
    for kind, content in messages:
        log.add(0, kind, content)
    return log.of_cell(0)


def test_outputs_keep_their_whole_content():
    content = {"data": {"text/plain": "3"}, "metadata": {}, "execution_count": 1}
    assert log_of(("execute_result", content)) == [{"output_type": "execute_result", **content}]


def test_messages_that_show_nothing_are_left_out():
    assert log_of(("status", {"execution_state": "busy"}), ("execute_input", {}), ("comm_open", {})) == []


def test_clearing_is_ignored():
    text = {"name": "stdout", "text": "a"}
    assert log_of(("stream", text), ("clear_output", {"wait": True})) == [{"output_type": "stream", **text}]


def test_pieces_of_one_stream_are_joined():
    pieces = [("stream", {"name": name, "text": text}) for name, text in (("stdout", "a"), ("stdout", "b"))]
    error = ("stream", {"name": "stderr", "text": "c"})
    assert [message["text"] for message in log_of(*pieces, error, *pieces)] == ["ab", "c", "ab"]


def test_an_update_replaces_the_displays_of_its_id():
    def shown(text, display_id):
        return {"data": {"text/plain": text}, "metadata": {}, "transient": {"display_id": display_id}}

    messages = log_of(
        ("display_data", shown("before", "one")),
        ("display_data", shown("other", "two")),
        ("update_display_data", shown("after", "one")),
        ("update_display_data", {"data": {"text/plain": "nowhere"}, "transient": None}),
    )
    assert [message["data"]["text/plain"] for message in messages] == ["after", "other"]


def test_a_cell_that_is_sent_again_starts_anew():
    log = MessageLog()
    log.add(0, "stream", {"name": "stdout", "text": "a"})
    log.begin(0)
    assert (log.of_cell(0), log.of_cell(1)) == ([], [])
