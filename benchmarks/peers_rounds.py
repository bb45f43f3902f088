"""The client round on two other engines, each as its own documentation runs it, steered by `benchmarks.rounds`.

Where a choice was open it was made in the peer's favour: ready-made float tensors kept in the worker, no evaluation, quiet
logs. Flower is also shown as lean as we could make it: one model per worker, no data loader, one CPU per client. All clip each
client's update and add Gaussian noise to the sum, as we do.
"""

from __future__ import annotations

import functools
import logging
import sys
import time
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.lockstep import reply, turns
from benchmarks.round_jobs import BATCH, L2_CLIP_NORM, LEARNING_RATE, NOISE_MULTIPLIER, ROUND_JOBS, RoundJob


@functools.cache
def _everyones_features(name: str) -> list[tuple[Tensor, Tensor]]:
    job = ROUND_JOBS[name]
    return [job.features(client) for client in range(job.clients)]


@functools.cache
def _worker_model(name: str) -> nn.Module:
    return ROUND_JOBS[name].model()


def _local_sgd(model: nn.Module, batches: Iterable[Sequence[Tensor]]) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    for batch, targets in batches:
        optimizer.zero_grad()
        cross_entropy(model(batch), targets).backward()
        optimizer.step()


def flower(job: RoundJob, *, lean: bool = False) -> None:
    """Flower's simulation as its quick start for PyTorch has it: a model and a data loader for each message, two CPUs per client.

    On two cores clients then work one after another on two threads each. Kept lean, a worker has one model, no data loader and
    one CPU.
    """
    import flwr
    from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
    from flwr.simulation import run_simulation

    logging.getLogger("flwr").setLevel(logging.ERROR)
    client_app, server_app, name = ClientApp(), ServerApp(), job.name

    @client_app.train()
    def train(message: Message, context: Context) -> Message:
        model = _worker_model(name) if lean else ROUND_JOBS[name].model()
        model.load_state_dict(message.content["arrays"].to_torch_state_dict())
        inputs, labels = _everyones_features(name)[int(context.node_config["partition-id"])]
        batches: Iterable[Sequence[Tensor]] = zip(inputs.split(BATCH), labels.split(BATCH), strict=True)
        if not lean:
            batches = DataLoader(TensorDataset(inputs, labels), batch_size=BATCH, shuffle=True)
        _local_sgd(model, batches)
        metrics = MetricRecord({"num-examples": len(labels)})
        return Message(
            content=RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message
        )

    @server_app.main()
    def main(grid: Grid, context: Context) -> None:
        arrays = ArrayRecord(job.model().state_dict())
        everyone = FedAvg(fraction_evaluate=0.0, min_train_nodes=job.clients, min_available_nodes=job.clients)
        strategy = DifferentialPrivacyServerSideFixedClipping(everyone, NOISE_MULTIPLIER, L2_CLIP_NORM, job.clients)
        for _ in turns():
            begin = time.perf_counter()
            result = strategy.start(grid=grid, initial_arrays=arrays, num_rounds=1)
            seconds = time.perf_counter() - begin
            arrays = result.arrays
            if not arrays:
                raise RuntimeError("Flower's clients sent no models")
            reply(seconds, f"version {flwr.__version__}")

    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}} if lean else None
    run_simulation(server_app, client_app, job.clients, backend_config=resources)


def pfl(job: RoundJob) -> None:
    """pfl-research's simulation: one process that uses every core."""
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam import NNTrainHyperParams
    from pfl.metrics import Metrics
    from pfl.model.pytorch import PyTorchModel
    from pfl.privacy import CentrallyAppliedPrivacyMechanism, GaussianMechanism
    from pfl.version import __version__

    class WithLoss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = job.model()

        def loss(self, inputs: Tensor, labels: Tensor) -> Tensor:
            return cross_entropy(self.inner(inputs), labels)

        def metrics(self, inputs: Tensor, labels: Tensor) -> dict[str, float]:
            return {}

    class Conductor(TrainingProcessCallback):
        """Holds the loop up until the parent asks for the next round."""

        def __init__(self) -> None:
            self.asked = turns()
            self.begin = 0.0

        def on_train_begin(self, *, model: PyTorchModel) -> Metrics:
            self.wait()
            return Metrics()

        def after_central_iteration(
            self, metrics: Metrics, model: PyTorchModel, *, central_iteration: int
        ) -> tuple[bool, Metrics]:
            reply(time.perf_counter() - self.begin, f"version {__version__}")
            return not self.wait(), Metrics()

        def wait(self) -> bool:
            more = next(self.asked, self) is None
            self.begin = time.perf_counter()
            return more

    data = _everyones_features(job.name)
    users = list(range(job.clients))
    dataset = FederatedDataset(
        lambda user: Dataset(raw_data=list(data[user]), user_id=user), get_user_sampler("minimize_reuse", users)
    )
    module = WithLoss()
    model = PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0))
    privacy = CentrallyAppliedPrivacyMechanism(GaussianMechanism(L2_CLIP_NORM, NOISE_MULTIPLIER))
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=10**6,
            evaluation_frequency=10**7,
            train_cohort_size=job.clients,
            val_cohort_size=None,
        ),
        SimulatedBackend(dataset, dataset, postprocessors=[privacy]),
        model,
        NNTrainHyperParams(local_num_epochs=1, local_learning_rate=LEARNING_RATE, local_batch_size=BATCH),
        callbacks=[Conductor()],
        send_metrics_to_platform=False,
    )


PEERS: dict[str, Callable[[RoundJob], None]] = {
    "flower": flower,
    "flower, kept lean": functools.partial(flower, lean=True),
    "pfl": pfl,
}


def arguments(peer: str, job: str) -> list[str]:
    """How to start a peer's child: imported by name, because Ray's workers must be able to import it too."""
    return ["-c", "from benchmarks.peers_rounds import main; main()", peer, job]


def main() -> None:
    PEERS[sys.argv[1]](ROUND_JOBS[sys.argv[2]])
