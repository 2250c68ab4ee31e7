import asyncio
import json

import zmq
import zmq.asyncio
from hypothesis import given
from hypothesis import strategies as st
from jupyter_client.session import Session

from pytest_lecturecheck.kernel.messages import wire
from pytest_lecturecheck.kernel.process.outputs import BoundedText, SkippedText


def received(parts, session):
    return list(wire.read_message([zmq.Frame(part) for part in parts], session))


def packed(session, kind, content, **more):
    return session.serialize(session.msg(kind, content=content, parent={"msg_id": "asked"}, **more))


def test_a_message_comes_as_it_was_sent():
    session = Session(key=b"k")
    parts = packed(session, "display_data", {"data": {"text/plain": "1"}}, metadata={"a": 1})
    (message,) = received([*parts, b"buffer"], session)
    assert (message["msg_type"], message["content"], message["metadata"]) == (
        "display_data",
        {"data": {"text/plain": "1"}},
        {"a": 1},
    )
    assert message["parent_header"] == {"msg_id": "asked"}
    assert message["msg_id"] == message["header"]["msg_id"]
    assert [bytes(buffer) for buffer in message["buffers"]] == [b"buffer"]


def test_a_message_signed_with_another_key_is_not_taken():
    assert received(packed(Session(key=b"other"), "status", {}), Session(key=b"k")) == []


def test_an_unsigned_message_is_not_taken():
    assert received(packed(Session(key=b""), "status", {}), Session(key=b"k")) == []


def test_what_is_no_message_is_not_taken():
    session = Session(key=b"")
    assert received([b"no delimiter"], session) == []
    assert received([b"<IDS|MSG>", b"", b"{}"], session) == []
    assert received([b"<IDS|MSG>", b"", b"{}", b"{}", b"{}", b"{"], session) == []
    assert received([b"<IDS|MSG>", b"", b"{}", b"{}", b"{}", b"{}"], session) == []
    whole = [b"<IDS|MSG>", b"", b'{"msg_id": "m", "msg_type": "status", "version": "5.3"}', b"{}", b"{}", b"{}"]
    assert len(received(whole, session)) == 1
    deep = b"[" * 100_000 + b"]" * 100_000
    for part in range(2, 6):
        for other in (b"[]", b"5", deep):
            assert received([*whole[:part], other, *whole[part + 1 :]], session) == []
    assert received([*whole[:2], b'{"msg_id": "m", "msg_type": "status", "version": 5}', *whole[3:]], session) == []


def test_long_metadata_comes_whole():
    session = Session(key=b"k")
    metadata = {"lecturecheck": {"shell_lines": [["x" * 2_000_000, 3]]}}
    (message,) = received(packed(session, "execute_reply", {"status": "ok"}, metadata=metadata), session)
    assert message["metadata"] == metadata


def test_a_long_stream_comes_in_pieces():
    session = Session(key=b"k")
    text = 'line \\ "quoted" \u00e9\u4e16\U0001f600\t\x1b[0m\n' * 100_000
    messages = received(packed(session, "stream", {"name": "stderr", "text": text}), session)
    assert len(messages) > 3
    assert {(message["msg_type"], message["content"]["name"]) for message in messages} == {("stream", "stderr")}
    assert "".join(message["content"]["text"] for message in messages) == text


def test_long_content_that_is_no_plain_stream_comes_whole():
    session = Session(key=b"k")
    content = {"text": "x" * 2_000_000, "name": "stdout"}
    (message,) = received(packed(session, "stream", content), session)
    assert message["content"] == content


def pieces(text, piece_bytes, *, ascii_only, keeps_all=True):
    content = json.dumps({"name": "stdout", "text": text}, ensure_ascii=ascii_only).encode()
    start = wire._STREAM_START.match(content).end()
    return list(wire._pieces(content, start, len(content) - len(wire._STREAM_END), piece_bytes, keeps_all=keeps_all))


def test_half_a_surrogate_pair_loses_no_text():
    text = f"{'before' * 10}{chr(0xD83D)}{'after' * 10}"
    assert "".join(pieces(text, 30, ascii_only=True)) == text


def test_pieces_of_nothing_but_backslashes():
    text = "\\" * 1000
    assert "".join(pieces(text, 101, ascii_only=True)) == text


@given(
    text=st.text(alphabet=st.one_of(st.characters(codec="utf-8"), st.sampled_from('\\"\n\x00\U0001f600'))),
    piece_bytes=st.integers(30, 60),
    ascii_only=st.booleans(),
)
def test_pieces_of_any_text_make_up_the_text(text, piece_bytes, ascii_only):
    assert "".join(pieces(text, piece_bytes, ascii_only=ascii_only)) == text


@given(
    text=st.text(
        alphabet=st.one_of(st.characters(codec="utf-8"), st.sampled_from('ab\\"\n\x00\U0001f600')), max_size=600
    ),
    repeats=st.integers(1, 20),
    ascii_only=st.booleans(),
)
def test_text_that_is_skipped_is_counted(text, repeats, ascii_only):
    whole, bounded = (BoundedText(head_chars=10, tail_chars=10) for _ in range(2))
    whole.append(text * repeats)
    # Half a piece has more characters than are kept, whatever they are.
    found = pieces(text * repeats, 260, ascii_only=ascii_only, keeps_all=False)
    for piece in found:
        bounded.append(piece)
    assert (bounded.text, bounded.total_chars) == (whole.text, whole.total_chars)


def test_a_long_stream_that_nobody_keeps_is_not_decoded():
    session = Session(key=b"k")
    sent = packed(session, "stream", {"name": "stdout", "text": "0123456789\n" * 1_000_000})
    needs = wire.Needs(whole_streams=lambda: False)
    texts = [
        found["content"]["text"] for found in wire.read_message([zmq.Frame(part) for part in sent], session, needs)
    ]
    skipped = [text for text in texts if isinstance(text, SkippedText)]
    assert len(skipped) > 6
    assert sum(len(text) for text in texts) + sum(text.chars for text in skipped) == 11_000_000


def exchange(session, act):
    """Run ``act`` with a mailbox, the other end of its socket, and what was taken."""

    async def run():
        context = zmq.asyncio.Context()
        here, there = context.socket(zmq.DEALER), zmq.Context.shadow(context.underlying).socket(zmq.DEALER)
        here.setsockopt(zmq.SNDHWM, 1)
        there.setsockopt(zmq.RCVHWM, 1)
        there.bind("inproc://kernel")
        here.connect("inproc://kernel")
        taken = []
        mailbox = wire.Mailbox(here, session, taken.append)
        try:
            await asyncio.wait_for(act(mailbox, there, taken), 60)
        finally:
            mailbox.close()
            mailbox.close()
            here.close()
            there.close()
            context.destroy(linger=0)
        return taken

    return asyncio.run(run())


async def until(condition):
    while not condition():  # noqa: ASYNC110 - the other end of a socket sets no event
        await asyncio.sleep(0.001)


def test_a_mailbox_delivers_many_messages_in_order():
    session = Session(key=b"k")

    async def act(_mailbox, there, taken):
        for number in range(3 * wire._AT_ONCE):
            there.send_multipart(packed(session, "stream", {"name": "stdout", "text": str(number)}))
        await until(lambda: len(taken) == 3 * wire._AT_ONCE)

    taken = exchange(session, act)
    assert [message["content"]["text"] for message in taken] == [str(number) for number in range(3 * wire._AT_ONCE)]


def test_sending_waits_for_room_without_blocking_reads():
    session = Session(key=b"k")
    count = 50

    async def act(mailbox, there, taken):
        for number in range(count):
            mailbox.send([b"%d" % number])
        there.send_multipart(packed(session, "status", {"execution_state": "starting"}))
        # The other end reads nothing yet.
        await until(lambda: taken)
        for number in range(count):
            await until(lambda: there.poll(0))
            assert there.recv_multipart() == [b"%d" % number]
            there.send_multipart(packed(session, "status", {"execution_state": "idle"}))
            await until(lambda: len(taken) == number + 2)  # noqa: B023 - called before the next number

    assert len(exchange(session, act)) == count + 1


def test_what_is_not_needed_is_not_read():
    session = Session(key=b"k")
    seen = []

    async def act(mailbox, there, taken):
        wanted = lambda header, content: seen.append((header, content)) or b"input" not in header  # noqa: E731
        mailbox._needs = wire.Needs(message=wanted)
        there.send_multipart(packed(session, "status", {"execution_state": "busy"}))
        there.send_multipart(packed(session, "execute_input", {"code": "1"}))
        there.send_multipart(packed(session, "status", {"execution_state": "idle"}))
        await until(lambda: taken)

    (message,) = exchange(session, act)
    assert (message["msg_type"], message["content"]) == ("status", {"execution_state": "idle"})
    assert len(seen) == 2


def test_a_message_that_cannot_be_handled_ends_no_mailbox(caplog):
    session = Session(key=b"k")

    async def act(mailbox, there, taken):
        def take(message):
            taken.append(message)
            if len(taken) == 1:
                raise ValueError

        mailbox._take = take
        for _ in range(2):
            there.send_multipart(packed(session, "status", {}))
        await until(lambda: len(taken) == 2)

    assert len(exchange(session, act)) == 2
    assert "Exception in callback Mailbox._read()" in caplog.text
