"""Limits in a session: items of every arm, answers, and what is measured for them."""

LIMITS = """
    import pytest

    @pytest.mark.smtp
    @pytest.mark.levels(connections=[1])
    @pytest.mark.limit("p95", "{p95}")
    @pytest.mark.limit("mean", "{mean}")
    def test_limits(measured):
        {body}
"""


def limits(project, *, p95="30ms", mean="25ms", body="pass"):
    project.pytester.makepyfile(test_limits=LIMITS.format(p95=p95, mean=mean, body=body))


def events(project, kind):
    return [line for line in project.kept() if line["event"] == kind]


def verdicts(project):
    return {
        line["nodeid"].split("[")[1].rstrip("]"): {each["metric"]: each["verdict"] for each in line["components"]}
        for line in events(project, "record")
    }


def test_a_test_of_limits_alone_has_an_item_of_every_arm_and_no_reference(project):
    project.network(slower=1.0)
    limits(project)
    result = project.run("test_limits.py", "-v")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines([
        "*test_limits[[]loopback-smtp-c1-1k-ipv4] PASSED*",
        "*test_limits[[]loopback-smtp-c1-1k-ipv6] FAILED*",
    ])  # fmt: skip
    assert project.measured == ["loopback-smtp-c1-1k ipv4 ipv6"]
    assert verdicts(project) == {
        "loopback-smtp-c1-1k-ipv4": {"p95<=30ms": "within", "mean<=25ms": "within"},
        "loopback-smtp-c1-1k-ipv6": {"p95<=30ms": "exceeds", "mean<=25ms": "exceeds"},
    }
