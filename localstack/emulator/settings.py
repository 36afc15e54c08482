"""How the account behaves, changeable while it runs."""

from dataclasses import asdict, dataclass, fields


@dataclass
class Settings:
    # Seconds an instance stays `pending`, `stopping` and `shutting-down`; 0 skips the state, as stock moto does.
    pending_seconds: float = 0.0
    stopping_seconds: float = 0.0
    shutting_down_seconds: float = 0.0
    # Seconds a minute of an experiment of FIS takes; the shortest experiment has two.
    experiment_minute_seconds: float = 60.0
    # Seconds a terminated instance can still be described; AWS keeps it about an hour.
    terminated_seconds: float = 3600.0
    # `implicit`: EC2 makes the spot service-linked role at the first spot launch, as it does for a caller with
    # the permission. `required`: the launch fails without the role, as it does for the controller's policy.
    spot_role: str = "implicit"
    # Whether state changes of instances are published to EventBridge.
    state_change_events: bool = True
    # The instance types that regions sell, of those that AWS sells there; `None` for all of them.
    instance_types: list[str] | None = None


current = Settings()


def sells(instance_type: str) -> bool:
    return current.instance_types is None or instance_type in current.instance_types


def update(values: dict[str, object]) -> dict[str, object]:
    known = {field.name for field in fields(Settings)}
    if unknown := set(values) - known:
        raise ValueError(f"there is no setting {sorted(unknown)}; there are {sorted(known)}")
    for name, value in values.items():
        setattr(current, name, value)
    return asdict(current)


def reset() -> None:
    update(asdict(Settings()))
