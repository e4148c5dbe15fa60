"""The page's server: who may ask, what is answered, and that an answer means it is stored."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from contextlib import contextmanager

import pytest

from marginrank.errors import DataError
from marginrank.judging import JudgementStore, JudgingServer, JudgingSession, parse_scale, read_documents

ODD = '<script>alert("x")</script>'


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "documents.csv"
    rows = "".join(f"query {row // 3},d{row},Title {row},{ODD.replace(chr(34), chr(39))}\n" for row in range(6))
    path.write_text("query,docid,title,text\n" + rows)
    return path


@contextmanager
def serving(table, *, seed=0, port=0):
    with JudgementStore(table.with_suffix(".db")) as store:
        session = JudgingSession(store, read_documents(table), parse_scale("0=No,1=Maybe,2=Yes"), seed)
        with JudgingServer(session, port) as server:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            try:
                yield server
            finally:
                server.shutdown()
                thread.join()


@pytest.fixture
def server(table):
    with serving(table) as running:
        yield running


def ask(server, path, message=None, *, method=None, headers=None, token=None, body=None):
    """Send a request, and return the status, the headers and the content."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    body = json.dumps(message) if message is not None else body
    given = {"Content-Type": "application/json"} | (headers or {})
    target = f"/{server.token if token is None else token}/{path}"
    connection.request(method or ("GET" if body is None else "POST"), target, body=body, headers=given)
    response = connection.getresponse()
    content = response.read()
    connection.close()
    kind = response.headers["Content-Type"]
    return response.status, response.headers, json.loads(content) if kind == "application/json" else content


def judge(server, rater="ann", document=1, grade=1, request="r1", **more):
    message = {"rater": rater, "document": document, "grade": grade, "request": request, "note": ""} | more
    return ask(server, "judge", message)


def test_judging_all_of_it(server):
    _, _, state = ask(server, "state?rater=ann")
    assert (state["judged"], state["skipped"], state["total"], state["last"]) == (0, 0, 6, None)
    seen = []
    for number in range(6):
        shown = state["document"]
        seen.append((shown["query"], shown["document_id"]))
        assert (shown["place"], shown["of"]) == (number % 3 + 1, 3)
        grade = None if number == 2 else number % 3
        status, _, state = judge(server, document=shown["number"], grade=grade, request=f"r{number}", note=f"n{number}")
        assert status == 200
    assert state["document"] is None
    assert (state["judged"], state["skipped"]) == (5, 1)
    assert len(set(seen)) == 6
    stored = {(document, grade) for _, document, _, grade in server.session.store.judgements().rows()}
    assert stored == {(document, number % 3) for number, (_, document) in enumerate(seen) if number != 2}
    # What was skipped comes again, once.
    _, _, state = ask(server, f"state?rater=ann&skipped_until={state['last']}")
    assert (state["document"]["document_id"], state["document"]["note"]) == (seen[2][1], "n2")


def test_undo_shows_the_document_again(server):
    _, _, state = ask(server, "state?rater=ann")
    first = state["document"]
    _, _, state = judge(server, document=first["number"], grade=2, note="why")
    assert state["document"]["number"] != first["number"]
    _, _, state = ask(server, "undo", {"rater": "ann", "decision": state["last"]})
    assert (state["document"]["number"], state["judged"], state["last"]) == (first["number"], 0, None)
    assert ask(server, "undo", {"rater": "bob", "decision": 1})[0] == 400


def test_an_answer_means_that_it_is_stored(server, table):
    judge(server, grade=2)
    with JudgementStore(table.with_suffix(".db")) as other:
        assert next(other.judgements().rows())[2:] == ("ann", 2.0)


def test_raters_do_not_see_each_other(server):
    judge(server, rater="ann", document=1, grade=2)
    _, _, state = ask(server, "state?rater=bob")
    assert (state["judged"], state["document"]["grade"]) == (0, None)
    orders = [server.session.order(rater) for rater in ("ann", "bob", "cat")]
    assert len({tuple(order) for order in orders}) > 1


def test_the_order_can_be_that_of_the_file(table):
    with serving(table, seed=None) as server:
        assert ask(server, "state?rater=ann")[2]["document"]["document_id"] == "d0"


def test_the_address_stays_after_a_restart(table):
    with serving(table) as server:
        address = server.address
    with serving(table, port=None) as server:
        assert server.address == address
        with (
            JudgementStore(table.with_suffix(".db")) as store,
            pytest.raises(DataError, match=r"port \d+ is in use, .* give another port="),
        ):
            JudgingServer(JudgingSession(store, read_documents(table), parse_scale("0=No,1=Maybe,2=Yes")))


@pytest.mark.parametrize("token", ["", "wrong", "x" * 32])
def test_a_wrong_token_is_refused(server, token):
    for path in ("", "page.js", "state?rater=ann", "raters"):
        status, _, answer = ask(server, path, token=token)
        assert (status, "address" in answer["error"]) == (403, True)
    assert judge(server)[0] == 200
    assert ask(server, "judge", {"rater": "x"}, token=token)[0] == 403


def test_tokens_are_compared_in_constant_time(server, monkeypatch):
    compared = []
    monkeypatch.setattr("hmac.compare_digest", lambda one, other: compared.append((one, other)) or one == other)
    ask(server, "raters", token="wrong")
    assert compared == [(b"wrong", server.token.encode())]


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "localhost:1", "127.0.0.1.evil.example"])
def test_another_host_is_refused(server, host):
    assert ask(server, "state?rater=ann", headers={"Host": host})[0] == 421


def test_localhost_is_this_host(server):
    assert ask(server, "state?rater=ann", headers={"Host": f"localhost:{server.server_port}"})[0] == 200


def test_other_pages_are_refused_and_get_no_leave(server):
    status, headers, _ = ask(server, "state?rater=ann", headers={"Origin": "http://evil.example"})
    assert status == 403
    for path in ("", "state?rater=ann"):
        _, headers, _ = ask(server, path)
        assert not [name for name in headers if name.lower().startswith("access-control")]
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"
    assert ask(server, "judge", method="OPTIONS")[0] == 501
    # A form of another page cannot send JSON without asking.
    assert ask(server, "judge", {"rater": "x"}, headers={"Content-Type": "text/plain"})[0] == 415


GOOD = {"rater": "ann", "document": 1, "grade": 1, "request": "r", "note": ""}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rater": ""}, "name"),
        ({"rater": "x" * 81}, "name"),
        ({"rater": "a\x1bb"}, "name"),
        ({"rater": 7}, "rater is not text"),
        ({"rater": "\ud800"}, "Unicode"),
        ({"grade": 3}, "not a grade of the scale"),
        ({"grade": "1"}, "give a grade"),
        ({"grade": True}, "give a grade"),
        ({"grade": 10**400}, "too large"),
        ({"document": 99}, "no such document"),
        ({"document": -1}, "document is not a whole number"),
        ({"document": 1.5}, "document is not a whole number"),
        ({"request": ""}, "request"),
        ({"request": "x" * 101}, "request"),
        ({"note": "x" * 4001}, "4,001 characters"),
    ],
)
def test_answers_that_make_no_sense_are_refused_and_not_stored(server, change, said):
    status, _, answer = ask(server, "judge", GOOD | change)
    assert status == 400
    assert said in answer["error"]
    assert server.session.store._rows("SELECT COUNT(*) FROM decisions") == [(0,)]
    assert judge(server)[0] == 200


@pytest.mark.parametrize("body", ["", "[1]", "{", "[" * 5000, "null"])
def test_what_is_no_object_is_refused(server, body):
    assert ask(server, "judge", body=body)[0] == 400


def test_large_requests_are_refused_before_they_are_read(server):
    connection = socket.create_connection(("127.0.0.1", server.server_port), timeout=20)
    head = f"POST /{server.token}/judge HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n"
    connection.sendall((head + "Content-Type: application/json\r\nContent-Length: 99999999\r\n\r\n").encode())
    assert connection.recv(100).startswith(b"HTTP/1.1 413")
    connection.close()
    connection = socket.create_connection(("127.0.0.1", server.server_port), timeout=20)
    connection.sendall((head + "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n").encode())
    assert connection.recv(100).startswith(b"HTTP/1.1 411")
    connection.close()


def test_connections_are_limited(server):
    held = [socket.create_connection(("127.0.0.1", server.server_port), timeout=20) for _ in range(70)]
    closed = 0
    for one in held:
        one.settimeout(0.3)
        try:
            closed += one.recv(1) == b""
        except TimeoutError:
            pass
        except ConnectionResetError:
            closed += 1
    assert closed == 70 - 64
    for one in held:
        one.close()


def test_other_paths_are_not_found(server):
    for path in ("../judgement_store.py", "judging_page.html", "x", "state/"):
        assert ask(server, path)[0] in (403, 404)
    assert ask(server, "state", {"rater": "x"})[0] == 404
    assert ask(server, "state?rater=ann&skipped_until=x")[0] == 400


def test_the_page_holds_nothing_of_the_data_and_loads_nothing_from_elsewhere(server):
    for path in ("", "page.css", "page.js"):
        content = ask(server, path)[2].decode()
        assert "Title 0" not in content
        assert "http" not in content.replace("https?:", "")
        assert "innerHTML" not in content


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("0", "2 to 10"),
        ("0,0", "2 to 10"),
        ("a,b", "give grades such as"),
        ("-1,0", "not negative"),
        ("0,nan", "finite"),
    ],
)
def test_scales_that_make_no_sense(spec, said):
    with pytest.raises(ValueError, match=said):
        parse_scale(spec)
