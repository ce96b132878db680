#!/usr/bin/env python3
"""The programs of examples/ray on Ray's own test cluster: three nodes on this machine, at three loopback addresses.

    check.py MODEL            workers that are killed, a node that goes, a job that is killed, vectors, a service
    check.py MODEL short      a worker that is killed, vectors, a service
    check.py MODEL measure    rows per second of 1 and 2 workers, beside the same without Ray, alternately

scripts/test-ray.sh runs it, in an environment with ray, numpy and cffi."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Callable

import batch
import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import ray
import service
from ray import serve
from ray.cluster_utils import Cluster
from ray.data import DataContext
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import ironbridge

BATCH, LIMIT, PATIENCE = 8, 16, 120.0
BEGINNINGS = ("Ownership is", "A trait", "The borrow checker", "A slice", "An enum", "Closures", "fn main", "Threads")


def say(text: str) -> None:
    print(f"ray: {text}", flush=True)


def wait_for(what: str, condition: Callable[[], Any]) -> Any:
    """What the condition gives once that is true."""
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, f"{what}: not within {PATIENCE:.0f} s"
        time.sleep(0.05)
    return found


class Notes:
    """What workers have done, of all processes: a line for each batch, whole or not there at all."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(exist_ok=True)

    def add(self, **note: Any) -> None:
        with open(self.folder / "lines", "ab", buffering=0) as file:
            file.write(json.dumps(note).encode() + b"\n")

    def all(self) -> list[dict[str, Any]]:
        path = self.folder / "lines"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def rows(self) -> list[int]:
        return sorted(row for note in self.all() for row in note["rows"])

    def claim(self, name: str) -> bool:
        """True for the first who asks."""
        try:
            (self.folder / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


class Noted(batch.Writer):
    """A writer that notes what it has computed."""

    def __init__(self, notes: str, **given: Any) -> None:
        start = time.time()
        super().__init__(**given)
        self.notes, self.batches, self.loaded = Notes(notes), 0, time.time() - start

    def __call__(self, rows: batch.Batch) -> batch.Batch:
        start, used = time.time(), time.process_time()
        result = super().__call__(rows)
        self.batches += 1
        self.notes.add(
            rows=[int(row) for row in rows["id"]],
            start=start,
            end=time.time(),
            used=time.process_time() - used,
            loaded=self.loaded,
            process=os.getpid(),
            node=ray.get_runtime_context().get_node_id(),
        )
        return result


class Killed(Noted):
    """The first that has computed a second batch is killed before it can give it to anybody."""

    def __call__(self, rows: batch.Batch) -> batch.Batch:
        result = super().__call__(rows)
        if self.batches == 2 and self.notes.claim("killed"):
            self.notes.add(rows=[], killed=[int(row) for row in rows["id"]])
            os.kill(os.getpid(), signal.SIGKILL)
        return result


class Killing(Noted):
    """Kills the job itself, once something is written."""

    def __init__(self, driver: int, done: str, **given: Any) -> None:
        super().__init__(**given)
        self.driver, self.done = driver, Path(done)

    def __call__(self, rows: batch.Batch) -> batch.Batch:
        result = super().__call__(rows)
        if self.batches == 3:
            wait_for("a part that is written", lambda: written(self.done))
            os.kill(self.driver, signal.SIGKILL)
        return result


def written(done: Path) -> list[Path]:
    """The notes of Ray's on what is in the output."""
    return [path for path in done.glob("*.parquet") if ".pending" not in path.name]


def make_cluster() -> Cluster:
    settings = {"num_cpus": 2, "object_store_memory": 100 << 20}
    head = {**settings, "node_ip_address": "127.0.0.2", "include_dashboard": False}
    return Cluster(initialize_head=True, head_node_args=head)


def add_node(cluster: Cluster, address: str) -> Any:
    return cluster.add_node(num_cpus=2, object_store_memory=100 << 20, node_ip_address=address)


@ray.remote(num_cpus=2)
class Occupant:
    """Takes the processors of a node."""

    def ready(self) -> None:
        pass


def connect(address: str) -> None:
    ray.init(address=address, _node_ip_address="127.0.0.2", log_to_driver=False, logging_level=logging.WARNING)
    logging.getLogger("ray.data").setLevel(logging.WARNING)
    DataContext.get_current().enable_progress_bars = False


def make_input(path: Path, rows: int) -> dict[int, str]:
    """Rows in two files; the text of each."""
    texts = {row: f"{BEGINNINGS[row % len(BEGINNINGS)]} {row // len(BEGINNINGS)}" for row in range(rows)}
    path.mkdir()
    for part, first in enumerate(range(0, rows, rows // 2)):
        ids = list(range(first, first + rows // 2))
        parquet.write_table(arrow.table({"id": ids, "text": [texts[row] for row in ids]}), path / f"{part}.parquet")
    return texts


def output(path: Path) -> dict[int, dict[str, Any]]:
    """The rows of all files, none of them twice."""
    rows = parquet.read_table(path).to_pylist()
    found = {row["id"]: row for row in rows}
    assert len(found) == len(rows), f"{len(rows) - len(found)} rows are written twice"
    return found


class Check:
    def __init__(self, model: str, folder: Path, address: str) -> None:
        self.path, self.folder, self.address = model, folder, address
        self.texts = make_input(folder / "input", 96)
        self.model = ironbridge.Model(model)
        self.answers: dict[tuple[int, ...], list[str]] = {}

    def answers_of(self, rows: list[int]) -> list[str]:
        """Without Ray. Of a quantized model they depend a little on what is computed together."""
        place = tuple(rows)
        if place not in self.answers:
            prompts = [self.model.encode(self.texts[row]) for row in rows]
            room = LIMIT + max(map(len, prompts))
            self.answers[place] = self.model.generate_all(prompts, BATCH, room, limit=LIMIT)
        return self.answers[place]

    def run(self, worker: type[Noted], name: str, notes: str, **more: Any) -> Notes:
        batch.run(
            worker,
            str(self.folder / "input"),
            str(self.folder / name),
            workers=2,
            threads=1,
            rows=BATCH,
            file_rows=2 * BATCH,
            model=self.path,
            limit=LIMIT,
            sequences=BATCH,
            notes=str(self.folder / notes),
            **more,
        )
        return Notes(str(self.folder / notes))

    def compare(self, name: str, *notes: Notes) -> None:
        found = output(self.folder / name)
        assert sorted(found) == sorted(self.texts), f"rows are lost: {sorted(set(self.texts) - set(found))}"
        wanted: dict[int, set[str]] = {}
        for note in (note for some in notes for note in some.all() if note["rows"]):
            for row, text in zip(note["rows"], self.answers_of(note["rows"])):
                wanted.setdefault(row, set()).add(text)
        for row, text in self.texts.items():
            assert found[row]["answer"] in wanted[row], (found[row], wanted[row])
            assert (found[row]["text"], found[row]["error"]) == (text, ""), found[row]
        assert len({row["answer"] for row in found.values()}) > len(BEGINNINGS), "the answers are all alike"

    def killed_worker(self) -> None:
        notes = self.run(Killed, "killed", "killed.notes")
        self.compare("killed", notes)
        killed = next(note["killed"] for note in notes.all() if "killed" in note)
        processes = {note["process"] for note in notes.all() if note["rows"]}
        nodes = {note["node"] for note in notes.all() if note["rows"]}
        assert len(processes) >= 3 and len(nodes) >= 2, f"{processes} on {nodes}"
        again = [row for row in killed if notes.rows().count(row) > 1]
        assert again == killed, f"{killed} were lost with their worker, {again} were computed again"
        say(f"a worker was killed: {len(killed)} rows were computed again, {len(self.texts)} written once")

    def lost_node(self, cluster: Cluster, nodes: list[Any]) -> None:
        """A node goes with its workers and with results that nobody has yet: the first that has computed a batch.

        Ray chooses where workers are. The cluster's head, which cannot go, has no room for them until then."""
        removed: list[str] = []
        there = NodeAffinitySchedulingStrategy(cluster.head_node.node_id, soft=False)
        occupant = Occupant.options(scheduling_strategy=there).remote()
        ray.get(occupant.ready.remote(), timeout=PATIENCE)

        def remove() -> None:
            notes = Notes(str(self.folder / "node.notes"))
            first = wait_for("a batch on a node", notes.all)[0]
            node = next(node for node in nodes if node.node_id == first["node"])
            cluster.remove_node(node, allow_graceful=False)
            ray.kill(occupant)
            removed.append(node.node_id)

        remover = threading.Thread(target=remove)
        remover.start()
        notes = self.run(Noted, "node", "node.notes")
        remover.join()
        assert removed, "the node is still there"
        self.compare("node", notes)
        say(f"a node went: {len(self.texts)} rows written once")

    def killed_job(self) -> None:
        command = [sys.executable, __file__, self.path, "job", str(self.folder), self.address]
        job = subprocess.run(command, timeout=PATIENCE)
        assert job.returncode == -signal.SIGKILL, f"the job ended with {job.returncode}"
        done = {row for path in written(self.folder / "job.done") for row in parquet.read_table(path)["id"].to_pylist()}
        assert 0 < len(done) < len(self.texts), f"{len(done)} rows were written"
        notes = self.run(Noted, "job", "again.notes")
        self.compare("job", Notes(str(self.folder / "job.notes")), notes)
        assert notes.rows() == sorted(set(self.texts) - done), "the second job computed other rows than were left"
        before = sorted((self.folder / "job").iterdir())
        say(f"a job was killed behind {len(done)} rows; the next one computed the other {len(notes.rows())}")
        notes = self.run(Noted, "job", "third.notes")
        assert not notes.rows() and sorted((self.folder / "job").iterdir()) == before, "a third one wrote something"

    def job(self) -> None:
        """The job that is killed, in a process of its own."""
        self.run(Killing, "job", "job.notes", driver=os.getpid(), done=str(self.folder / "job.done"))

    def vectors(self) -> None:
        source = self.folder / "texts.parquet"
        texts = ["Ownership is", "", "A trait", "word " * 10000]
        parquet.write_table(arrow.table({"id": ["a", "b", "c", "d"], "text": texts}), source)
        given = {"workers": 1, "threads": 1, "rows": 2, "model": self.path}
        batch.run(batch.Embedder, str(source), str(self.folder / "vectors"), **given)
        found = output(self.folder / "vectors")
        for name, text in (("a", texts[0]), ("c", texts[2])):
            assert np.allclose(found[name]["vector"], self.model.embed(text), atol=1e-6) and not found[name]["error"]
        assert "context" in found["d"]["error"], found["d"]["error"]
        given |= {"limit": 4, "sequences": 2}
        batch.run(batch.Writer, str(source), str(self.folder / "few"), **given)
        found = output(self.folder / "few")
        assert [bool(found[name]["error"]) for name in "abcd"] == [False, False, False, True], found
        say("vectors, and rows that have none, are what they are without Ray")


class Service:
    def __init__(self, model: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        serve.start(proxy_location="HeadOnly", http_options={"host": "127.0.0.1", "port": self.port})
        serve.run(service.app({"model": model, "replicas": "2"}))

    def post(self, path: str, body: Any) -> tuple[int, list[bytes]]:
        """The status and the parts in which the answer came."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                parts = list(iter(lambda: answer.read1(1 << 16), b""))
                return answer.status, parts
        except urllib.error.HTTPError as error:
            return error.code, [error.read()]

    def answers(self, model: str) -> None:
        with ironbridge.Model(model) as loaded:
            wanted = loaded.generate("Ownership is", limit=LIMIT).text()
            vector = loaded.embed("A trait")
            context = loaded.info["context"]
        question = {"prompt": "Ownership is", "limit": LIMIT}
        status, parts = self.post("/generate", question)
        assert (status, b"".join(parts).decode()) == (200, wanted), (status, parts)
        assert len(parts) > 1, "the text came at once"
        status, parts = self.post("/embed", {"text": "A trait"})
        assert status == 200 and np.allclose(json.loads(b"".join(parts))["vector"], vector, atol=1e-6)
        for status, path, body in [
            (404, "/other", {}),
            (400, "/generate", b"{"),
            (400, "/generate", []),
            (400, "/generate", {"prompt": 3}),
            (400, "/generate", {"prompt": "a", "limit": 0}),
            (400, "/embed", {"text": ""}),
            (413, "/generate", {"prompt": "a", "limit": context}),
            (413, "/embed", {"text": "word " * 10000}),
        ]:
            found, parts = self.post(path, body)
            assert found == status and parts[0].endswith(b"\n"), (path, body, found, parts)

        replicas = self.replicas()
        assert len(replicas) == 2, replicas
        ray.kill(ray.get_actor(replicas[0], namespace="serve"))
        # A request that was with the replica fails, and is for the client to repeat; none may be wrong.
        right = 0
        end = time.monotonic() + PATIENCE
        while right < 8 or set(self.replicas()) == set(replicas) or len(self.replicas()) < 2:
            assert time.monotonic() < end, f"{right} answers since a replica was killed; there are {self.replicas()}"
            status, parts = self.post("/generate", question)
            assert status >= 500 or (status, b"".join(parts).decode()) == (200, wanted), (status, parts)
            right += status == 200
        say("a service streams, refuses what is wrong, and has a new replica for one that was killed")

    def replicas(self) -> list[str]:
        actors = ray.util.list_named_actors(all_namespaces=True)
        return [actor["name"] for actor in actors if "#Llama#" in actor["name"]]


def measure(model: str, folder: Path) -> None:
    """The steady state: from the first batch's begin to the last one's end. Ray's own begin is a figure of its own.

    A run that does not count comes first. Ray starts dozens of Python processes for it, which take a processor for
    many seconds. A worker's own rate is of the processor time that its batches took: nobody else changes it much."""
    rows, limit, turns = 512, 64, 3
    texts = make_input(folder / "input", rows)
    found: dict[str, list[float]] = {}

    def alone(threads: int) -> None:
        program = (
            "import sys, time, json, ironbridge; model = ironbridge.Model(sys.argv[1]); texts = json.load(sys.stdin);"
            f"start = time.time(); "
            f"[model.generate_all(texts[at:at + 32], limit={limit}) for at in range(0, {rows}, 32)];"
            "print(time.time() - start)"
        )
        environment = {**os.environ, "IRONBRIDGE_THREADS": str(threads)}
        command = [sys.executable, "-c", program, model]
        given = json.dumps(list(texts.values()))
        run = subprocess.run(command, input=given, env=environment, check=True, capture_output=True, text=True)
        found.setdefault(f"without Ray, {threads} threads", []).append(rows / float(run.stdout))

    def with_ray(workers: int, turn: int) -> None:
        name = f"{workers}-{turn}"
        start = time.time()
        given = {"model": model, "limit": limit, "sequences": 8, "notes": str(folder / f"{name}.notes")}
        places = str(folder / "input"), str(folder / name)
        batch.run(Noted, *places, workers=workers, threads=1, rows=32, **given)
        took = time.time() - start
        notes = Notes(given["notes"]).all()
        first, last = min(note["start"] for note in notes), max(note["end"] for note in notes)
        assert sorted(output(folder / name)) == sorted(texts)
        if turn < 0:
            return
        used = sum(note["used"] for note in notes)
        found.setdefault(f"Ray, {workers} workers, of their own time", []).append(rows / used)
        found.setdefault(f"Ray, {workers} workers of 1 thread", []).append(rows / (last - first))
        found.setdefault(f"Ray, {workers} workers: seconds beside that", []).append(took - (last - first))
        found.setdefault("seconds to load the model", []).extend(note["loaded"] for note in notes)

    with_ray(2, -1)
    for turn in range(turns):
        alone(1)
        with_ray(1, turn)
        with_ray(2, turn)
        alone(2)
    say(f"{rows} rows of {limit} tokens, {turns} turns, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    for name, values in found.items():
        say(f"{name:36} median {statistics.median(values):8.2f}, {min(values):.2f} to {max(values):.2f}")


def main() -> None:
    model = os.path.abspath(sys.argv[1])
    if sys.argv[2:3] == ["job"]:
        folder, address = sys.argv[3:]
        connect(address)
        check = Check.__new__(Check)
        check.path, check.folder = model, Path(folder)
        check.job()
        return
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ray-") as place:
        cluster = make_cluster()
        connect(cluster.address)
        nodes = [add_node(cluster, address) for address in ("127.0.0.3", "127.0.0.4")]
        if sys.argv[2:] == ["measure"]:
            measure(model, Path(place))
        else:
            check = Check(model, Path(place), cluster.address)
            check.killed_worker()
            check.vectors()
            if sys.argv[2:] != ["short"]:
                check.killed_job()
                check.lost_node(cluster, nodes)
            running = Service(model)
            running.answers(model)
            serve.shutdown()
        ray.shutdown()
        cluster.shutdown()
    say(f"right, in {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
