"""The four ratios of paper 002 beside our own, from runs whose ratios are known."""

import dataclasses

import pytest

from pytest_ipperf.core.design.cell import Arm, Cell, Workload
from pytest_ipperf.report.allure_card import factor_texts
from pytest_ipperf.report.answer.sentence import plain_answer
from pytest_ipperf.report.studies.offload import tables

GBIT = {"ipv4-offload_on": 8.0, "ipv4-offload_off": 2.0, "ipv6-offload_on": 6.0, "ipv6-offload_off": 1.0}
WORKLOAD = "lab-tcp-c1-128k-vs_offload_off"


@pytest.fixture
def cells(made):
    """Return a function for the records of both IP versions, of 3 epochs with 2 blocks each."""

    def records(*, noise=0.0, missing=(), **change):
        found = []
        for ipver in (4, 6):
            arm = f"ipv{ipver}-offload_on"
            values = {
                each: [1e9 * GBIT[each] * (1 + noise * (at // 2 - 1)) for at in range(6)]
                for each in (arm, arm.replace("on", "off"))
            }
            record = made.record("tcp", "throughput", "ipv6", values[arm], values[arm.replace("on", "off")], blocks=2)
            test, reference = (
                dataclasses.replace(side, arm=Arm.parse(each))
                for side, each in ((record.test, arm), (record.reference, arm.replace("on", "off")))
            )
            if arm not in missing:
                own = {"cell": f"{WORKLOAD}-{arm}", "test": test, "reference": reference}
                found.append(dataclasses.replace(record, **own, **change))
        return found

    return records


def offload_tables(records):
    return [" ".join(line.split()) for table in tables(records) for line in table.lines()]


def test_each_ratio_of_the_study_stands_beside_ours_with_its_interval(cells):
    assert offload_tables(cells())[4:9] == [
        "change of throughput the study here by its formula here by epochs 95 % interval",
        "IPv6 offload off against IPv6 offload on -49.4 ± 1.3 % -83.3 ± 0 % -83.3 % [-83.3, -83.3] %",
        "IPv4 offload off against IPv6 offload off +35.8 ± 1.6 % +100 ± 0 % +100 % [+100, +100] %",
        "IPv6 offload on against IPv6 offload off +97.6 ± 2.6 % +500 ± 0 % +500 % [+500, +500] %",
        "IPv4 offload on against IPv6 offload off +103 ± 1.2 % +700 ± 0 % +700 % [+700, +700] %",
    ]


def test_what_all_arms_of_an_epoch_share_is_no_spread_by_epochs_and_one_by_the_formula_of_the_study(cells):
    noisy, steady = ([row.rsplit(" % ", 3) for row in offload_tables(cells(noise=each))[5:9]] for each in (0.3, 0.0))
    assert [row[-2:] for row in noisy] == [row[-2:] for row in steady]
    assert noisy[0][-3].endswith("-83.3 ± 24.7")


def test_fewer_than_three_epochs_have_no_interval(cells):
    assert offload_tables(cells(epochs=2, blocks=3, judges=False, design="smoke"))[5].endswith("-83.3 % -")


def test_without_all_four_arms_there_is_no_table(cells):
    assert offload_tables(cells(missing=["ipv4-offload_on"])) == []
    assert offload_tables([]) == []


def test_a_run_in_which_nothing_arrived_has_no_ratio(cells):
    records = cells()
    none = dataclasses.replace(records[1].test, values=(0.0, *records[1].test.values[1:]))
    found = offload_tables([records[0], dataclasses.replace(records[1], test=none)])
    assert [row[-3:] for row in found[5:9]] == ["- -", "] %", "- -", "] %"]


def test_the_answer_is_about_the_levels_and_names_the_ip_versions(cells):
    claim = "offload on is as fast as offload off for TCP over IPv4 and IPv6: all 2 cells are within their margin."
    assert plain_answer(cells()).sentence == claim


def test_allure_has_the_level_and_that_of_the_reference_as_parameters():
    workload = Workload(
        testbed="lab", protocol="tcp", client="lean", connections=1, payload_bytes=131072, against="offload_off"
    )
    texts = factor_texts(Cell(workload, Arm.parse("ipv6-offload_nogro")))
    assert (texts["offload"], texts["compared with"], texts["ipver"]) == ("nogro", "off", "IPv6")
