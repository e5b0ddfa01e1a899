"""Voice beside a load by a model, a game, and a load of DNS queries, between hosts behind sshds."""

from __future__ import annotations

from pytest_ipperf.plugin.measure.outcome import NOTHING_DECIDED

SUITE = """
    import pytest

    @pytest.mark.voip
    @pytest.mark.metric("jitter")
    @pytest.mark.levels(codec=["g729.2"], connections=[2], load=["quake3"], generators=[2])
    def test_voice_beside_a_game(measured, margin):
        assert measured.slowdown <= margin

    @pytest.mark.game
    @pytest.mark.levels(game=["counterstrike"], connections=[2])
    def test_game(measured, margin):
        assert measured.slowdown <= margin

    @pytest.mark.dns_load
    @pytest.mark.levels(carrier=["udp"], qps=["200"])
    def test_queries(measured, margin):
        assert measured.slowdown <= margin
"""


def test_they_are_measured_there_over_both_ip_versions(farm):
    stands = farm()
    process = stands.session("--design=glance", "--duration=500ms", suite=SUITE)
    said, _ = process.communicate(timeout=400)
    assert process.returncode == NOTHING_DECIDED, said
    runs = stands.events("run")
    assert {(run["workload"].split("-")[1], run["arm"]) for run in runs} == {
        (protocol, arm) for protocol in ("voip", "game", "dns_load") for arm in ("ipv4", "ipv6")
    }
    for run in runs:
        assert (run["contradictions"], run["proof"]["control"]) == ([], 0), run
        assert run["rows"] > 0
        if "-voip-" in run["workload"]:
            assert 0 < run["facts"]["load_bit_s"] == run["proof"]["load"]["load_bit_s"]
            assert run["facts"]["load_planned_bit_s"] > 0
    assert stands.left() == []
