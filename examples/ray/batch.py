#!/usr/bin/env python3
"""A text or a vector for each row of a data set, by as many models as the cluster has room for.

    python examples/ray/batch.py generate MODEL INPUT OUTPUT [--workers 2] [--threads 1] [--limit 64]
    python examples/ray/batch.py embed MODEL INPUT OUTPUT

INPUT is Parquet: a file or a folder with the columns `id`, which is unique, and `text`. OUTPUT is a folder that gets
Parquet with the same columns and `answer` or `vector`; `error` has what is wrong with a row that has none. All three
are paths or addresses that every machine of the cluster can read.

A worker that dies is started again and its rows are computed again. A job that dies is started again by hand, by the
same command: it goes on with the rows that are not in OUTPUT yet. Either way each row is written once.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

import numpy as np
import ray
from ray.data import ActorPoolStrategy, DataContext
from ray.data.checkpoint import CheckpointConfig

Batch = dict[str, Any]


class Worker:
    """An actor. It holds one model, which is loaded once, and gets batches of rows."""

    def __init__(self, model: str) -> None:
        # As many threads as Ray gave it processors. The library reads this when it opens its first device.
        processors = ray.get_runtime_context().get_assigned_resources().get("CPU", 1)
        os.environ["IRONBRIDGE_THREADS"] = str(max(1, int(processors)))
        import ironbridge

        self.errors = ironbridge.Error
        self.model = ironbridge.Model(model)

    def __call__(self, batch: Batch) -> Batch:
        raise NotImplementedError


class Writer(Worker):
    """Adds `answer`: what the model writes after `text`."""

    def __init__(self, model: str, limit: int, sequences: int) -> None:
        super().__init__(model)
        self.limit, self.sequences = limit, sequences
        self.context = self.model.info["context"]

    def __call__(self, batch: Batch) -> Batch:
        prompts = [self.model.encode(text) for text in batch["text"]]
        errors = [self.error(prompt) for prompt in prompts]
        good = [place for place, error in enumerate(errors) if not error]
        answers = [""] * len(prompts)
        # One session for all, with no more memory than the longest of them needs.
        room = self.limit + max((len(prompts[place]) for place in good), default=0)
        texts = self.model.generate_all(
            [prompts[place] for place in good], self.sequences, min(room, self.context), limit=self.limit
        )
        for place, text in zip(good, texts):
            answers[place] = text
        return {**batch, "answer": np.array(answers, object), "error": np.array(errors, object)}

    def error(self, prompt: list[int]) -> str:
        if not prompt:
            return "an empty text"
        if len(prompt) + self.limit > self.context:
            return f"{len(prompt)} tokens and {self.limit} of an answer do not fit a context of {self.context}"
        return ""


class Embedder(Worker):
    """Adds `vector`: what the model makes of `text`, of length 1."""

    def __call__(self, batch: Batch) -> Batch:
        vectors = np.zeros((len(batch["text"]), self.model.info["width"]), np.float32)
        errors = [""] * len(vectors)
        with self.model.session() as session:
            for place, text in enumerate(batch["text"]):
                try:
                    session.rewind(0)
                    vectors[place] = session.embed(text)
                except self.errors as error:
                    errors[place] = str(error)
        return {**batch, "vector": vectors, "error": np.array(errors, object)}


def run(
    worker: type[Worker],
    source: str,
    output: str,
    workers: int,
    threads: int,
    rows: int,
    file_rows: int = 1024,
    **given: Any,
) -> None:
    """Runs a job to its end. `rows` are computed, and lost with a worker, at a time; `given` goes to each worker."""
    # Reading and writing need a processor each while all workers work.
    needed, present = workers * threads + 2, int(ray.cluster_resources().get("CPU", 0))
    if present < needed:
        print(f"batch: the cluster has {present} processors: the job waits until it has {needed}", file=sys.stderr)
    # Which rows are in the output already. It stays after the end: the same command once more writes nothing.
    done = CheckpointConfig(id_column="id", checkpoint_path=f"{output}.done", delete_checkpoint_on_success=False)
    DataContext.get_current().checkpoint_config = done
    data = ray.data.read_parquet(source, columns=["id", "text"]).repartition(target_num_rows_per_block=rows)
    # Workers that die are made again, and so are the results that died with a machine, as often as it takes.
    data = data.map_batches(
        worker,
        fn_constructor_kwargs=given,
        batch_size=rows,
        compute=ActorPoolStrategy(size=workers),
        num_cpus=threads,
    )
    data.write_parquet(output, min_rows_per_file=file_rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=["generate", "embed"])
    parser.add_argument("model", help="a GGUF file or a folder of Hugging Face's")
    parser.add_argument("input")
    parser.add_argument("output")
    parser.add_argument("--workers", type=int, default=2, help="models in the cluster (2)")
    parser.add_argument("--threads", type=int, default=1, help="processors for each of them (1)")
    parser.add_argument("--rows", type=int, default=32, help="rows that a worker gets at a time (32)")
    parser.add_argument("--file-rows", type=int, default=1024, help="rows of a file, and what a job loses (1024)")
    parser.add_argument("--limit", type=int, default=64, help="tokens of an answer (64)")
    parser.add_argument("--sequences", type=int, default=8, help="answers that a model writes together (8)")
    chosen = parser.parse_args()
    model = chosen.model if "://" in chosen.model else os.path.abspath(chosen.model)
    source, output = (path if "://" in path else os.path.abspath(path) for path in (chosen.input, chosen.output))
    job = dict(workers=chosen.workers, threads=chosen.threads, rows=chosen.rows, file_rows=chosen.file_rows)
    job["model"] = model
    try:
        ray.init(address="auto")
    except ConnectionError:
        # No cluster: one of this machine alone. Reading and writing do little: their processors need not be there.
        ray.init(num_cpus=max(chosen.workers * chosen.threads + 2, os.cpu_count() or 1))
    if chosen.task == "generate":
        run(Writer, source, output, limit=chosen.limit, sequences=chosen.sequences, **job)
    else:
        run(Embedder, source, output, **job)


if __name__ == "__main__":
    main()
