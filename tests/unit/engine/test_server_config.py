"""The configuration of nats-server, and that pods of the two kinds of install can start with it."""

from __future__ import annotations

from tieline_core.engine.server_config import EngineConfig


def _text(*routes: str) -> str:
    return EngineConfig(
        operator="jwt",
        system_account="AS",
        accounts={"AS": "jwt", "AT": "jwt"},
        storage="/data",
        encryption_key="$TIELINE_ENGINE_KEY",
        routes=routes,
    ).text()


def test_a_cluster_does_not_start_upon_the_streams_of_a_single_server_which_it_would_delete() -> None:
    assert 'store_dir: "/data/single"' in _text()
    assert 'store_dir: "/data/cluster"' in _text("nats://a:6222", "nats://b:6222")


def test_a_pod_of_a_cluster_does_not_start_with_a_single_servers_configuration_nor_the_other_way_round() -> (
    None
):
    assert "server_name: $TIELINE_SERVER_NAME\n" in _text()
    assert "server_name: $TIELINE_CLUSTERED_SERVER_NAME\n" in _text("nats://a:6222")


def test_bounds_of_streams_may_add_up_to_more_than_the_volume_has() -> None:
    assert "max_file_store: 1125899906842624\n" in _text()


def test_only_the_pod_itself_reaches_the_monitoring_port() -> None:
    assert 'listen: "0.0.0.0:4222"\n' in _text()
    assert 'http: "127.0.0.1:8222"\n' in _text()
