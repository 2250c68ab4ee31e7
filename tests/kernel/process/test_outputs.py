from hypothesis import given
from hypothesis import strategies as st

from pytest_lecturecheck.kernel.process.outputs import BoundedText

pieces = st.lists(st.text(max_size=40), max_size=30)
bounds = st.integers(0, 25)


@given(pieces, bounds, st.integers(1, 25))
def test_longer_text_keeps_head_and_tail(given_pieces, head, tail):
    kept = BoundedText(head_chars=head, tail_chars=tail)
    for piece in given_pieces:
        kept.append(piece)
    whole = "".join(given_pieces)
    assert kept.total_chars == len(whole)
    assert kept.is_cut == (len(whole) > head + tail)
    if kept.is_cut:
        assert kept.text == f"{whole[:head]}\n[... {len(whole) - head - tail} characters cut ...]\n{whole[-tail:]}"
    else:
        assert kept.text == whole


@given(pieces, bounds, st.integers(1, 25))
def test_what_is_kept_is_bounded_however_the_text_comes(given_pieces, head, tail):
    kept = BoundedText(head_chars=head, tail_chars=tail)
    for piece in given_pieces:
        kept.append(piece)
        assert len(kept._head) <= head
        # At most one piece more than the bound is held, and no piece is longer than the bound.
        assert sum(map(len, kept._tail)) < 2 * tail + 1


@given(pieces)
def test_cleared_text_is_as_new(given_pieces):
    kept, new = BoundedText(head_chars=5, tail_chars=5), BoundedText(head_chars=5, tail_chars=5)
    kept.append("something that was there before")
    kept.clear()
    for piece in given_pieces:
        kept.append(piece)
        new.append(piece)
    assert (kept.text, kept.total_chars, kept.is_cut) == (new.text, new.total_chars, new.is_cut)
