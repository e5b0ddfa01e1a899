"""Files of traffic models: those of the package, those of users, and mistakes in them."""

from itertools import pairwise

import pytest

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.traffic.distribution import Distribution, Variable
from pytest_ipperf.core.portable.traffic.model import RtpFormat, Speech
from pytest_ipperf.core.portable.traffic.schedule import packets
from pytest_ipperf.traffic_models import TrafficModels
from pytest_ipperf.traffic_models.base import model_from_text

OF_DITG = {"telnet", "dns", "quake3", "cs.active", "cs.inactive", "g711.1", "g711.2", "g723.1", "g729.2", "g729.3"}
# Payload in kbit/s as D-ITG 2.8.1 computes it: packets a second of that many bytes, RTP's 12 included.
RATES = {"g711.1": 73.600, "g711.2": 68.800, "g723.1": 8.736, "g729.2": 12.800, "g729.3": 11.088}
# Packets a second and mean size in bytes of the games' published distributions.
GAMES = {
    ("quake3", "up"): (1000 / (0.6 * 4.29 + 0.4 * 10.75), 63.65),
    ("counterstrike", "up"): (25, 80 + 0.5772 * 5.7 - 0.5),
    ("counterstrike", "down"): (1000 / (55 + 0.5772 * 6), 120 + 0.5772 * 36 - 0.5),
}
GOOD = """
title = "A test"
source = "here"

[[stream]]
direction = "up"
interval_ms = 10
size_bytes = 100
"""
STREAM = GOOD.partition("\n\n")[2]
WRONG = [
    ("title = ", "the file is not TOML: Invalid value"),
    (GOOD.replace('title = "A test"', ""), "title is missing"),
    (GOOD.replace('"A test"', "5"), "title is 5; it takes a text in quotes"),
    ('colour = "red"\n' + GOOD, "the file: key 'colour' does not exist; there are title, source, format, "),
    (GOOD.replace(STREAM, ""), "the file has 0 tables [[stream]]; it takes 1 to 16"),
    (GOOD + STREAM * 16, "the file has 17 tables [[stream]]; it takes 1 to 16"),
    ('format = "srtp"\n' + GOOD, "format 'srtp' does not exist; there are numbered and rtp"),
    ('format = "rtp"\n' + GOOD, 'format = "rtp" and table [rtp] go together; the file has one of them'),
    ("duration_s = 0\n" + GOOD, "the file: duration_s is 0; it takes a number above 0"),
    ("conversation = 1\n" + GOOD, "conversation is 1; it takes true or false"),
    (GOOD.replace('"up"', '"north"'), "stream 1: direction 'north' does not exist; there are up and down"),
    (GOOD.replace("size_bytes = 100", ""), "stream 1: size_bytes is missing"),
    (GOOD.replace("100", "70000"), "stream 1: size_bytes is 70000; it takes 1 to 65507, or 'payload'"),
    (GOOD.replace("100", '"big"'), "stream 1: size_bytes is 'big'; it takes a number, a table with a distribution, or"),
    (GOOD.replace("= 10\n", '= "payload"\n'), "stream 1: interval_ms is 'payload', which is a size"),
    (GOOD + "talk_s = 1\n", "stream 1: talk_s and pause_s go together; the file has one of them"),
    (GOOD + "loss = 1\n", "stream 1: key 'loss' does not exist; there are direction, interval_ms, size_bytes, talk_s"),
    (
        GOOD.replace("= 10\n", "= {mean = 3}\n"),
        "stream 1: interval_ms: distribution is missing, such as distribution =",
    ),
    (
        GOOD.replace("= 10\n", '= {distribution = "exponential", mean = -1}\n'),
        "stream 1: interval_ms: mean of distribution exponential is -1; it takes a number above 0",
    ),
    (
        GOOD.replace("= 10\n", '= {distribution = "exponential", mean = "3"}\n'),
        "stream 1: interval_ms: mean is '3'; it takes a number",
    ),
    (
        GOOD.replace("= 10\n", '= {distribution = "exponential", quantiles = [1, 2]}\n'),
        "stream 1: interval_ms: distribution exponential takes no quantiles",
    ),
    (
        GOOD.replace("= 10\n", '= {distribution = "poisson", mean = 3}\n'),
        "stream 1: interval_ms: distribution poisson is one of counts",
    ),
    (
        GOOD.replace("= 100", '= [{distribution = "constant", value = 1}, {distribution = "constant", value = 2}]'),
        "stream 1: size_bytes: weight is missing",
    ),
    (GOOD + "[rtp]\npayload_type = 0\n", 'format = "rtp" and table [rtp] go together; the file has one of them'),
    (
        'format = "rtp"\n' + GOOD + "[rtp]\npayload_type = 200\nclock_hz = 8000\n",
        "[rtp]: payload_type is 200; it takes a whole number from 0 to 127",
    ),
    (
        'format = "rtp"\n' + GOOD + "[rtp]\npayload_type = 0\nclock_hz = 0.5\n",
        "[rtp]: clock_hz is 0.5; it takes a whole number from 1 to 1000000",
    ),
    (GOOD + "[speech]\nie = -1\nbpl = 4\ndelay_ms = 3\n", "[speech]: ie is -1; it takes a number of 0 or more"),
    (GOOD + "[speech]\nie = 1\nbpl = 0\ndelay_ms = 3\n", "[speech]: bpl is 0; it takes a number above 0"),
]


def sent(model, direction, seconds, connections=1):
    payload = model.with_payload(1000)
    return list(packets(payload, direction, connections, "3", least_bytes=1, until_s=seconds))


def test_all_models_of_ditg_are_there():
    models = TrafficModels()
    assert set(models) >= OF_DITG
    assert all(models[name].name == name and models[name].source for name in models)
    assert len(models) == len(list(models))


@pytest.mark.parametrize("name", RATES)
@pytest.mark.parametrize("direction", ["up", "down"])
def test_codecs_have_the_rates_of_ditg(name, direction):
    found = sent(TrafficModels()[name], direction, 100.0)
    assert 8 * sum(packet.size_bytes for packet in found) / 100e3 == pytest.approx(RATES[name], rel=1e-3)


@pytest.mark.parametrize(("name", "direction"), GAMES)
def test_games_have_the_rates_of_their_distributions(name, direction):
    rate, size_bytes = GAMES[name, direction]
    found = sent(TrafficModels()[name], direction, 400.0)
    assert len(found) / 400 == pytest.approx(rate, rel=0.02)
    assert sum(packet.size_bytes for packet in found) / len(found) == pytest.approx(size_bytes, rel=0.01)


@pytest.mark.parametrize(("name", "size_bytes"), [("cs.active", 43.5), ("cs.inactive", 27.6)])
def test_intervals_without_a_mean_have_the_median_of_the_game(name, size_bytes):
    found = sent(TrafficModels()[name], "up", 400.0)
    gaps = sorted(later.due_s - packet.due_s for packet, later in pairwise(found))
    assert gaps[len(gaps) // 2] == pytest.approx(0.0417, rel=0.002)
    assert sum(packet.size_bytes for packet in found) / len(found) == pytest.approx(size_bytes, rel=0.02)


def test_a_file_says_all_of_a_model():
    text = """
title = "All"
source = "here"
format = "rtp"
duration_s = 3
seed = "5"
[rtp]
payload_type = 18
clock_hz = 8000
[speech]
ie = 11
bpl = 19
delay_ms = 25
[[stream]]
direction = "down"
interval_ms = {distribution = "empirical", quantiles = [10, 20], most = 15}
size_bytes = [
    {weight = 3, distribution = "constant", value = 20},
    {weight = 1, distribution = "choice", values = [1, 2], weights = [1, 1]},
]
talk_s = {distribution = "exponential", mean = 1}
pause_s = 2
"""
    found = model_from_text("all", text)
    (stream,) = found.streams
    assert (found.duration_s, found.seed, found.conversation) == (3, "5", False)
    assert found.rtp == RtpFormat(payload_type=18, clock_hz=8000)
    assert found.speech == Speech(ie=11, bpl=19, delay_s=0.025)
    assert stream.interval_s.parts == (Distribution(name="empirical", values=(0.01, 0.02), most=0.015),)
    assert stream.size_bytes is not None
    assert list(stream.size_bytes.weights) == [3, 1]
    assert stream.pause_s == Variable.of(2)


@pytest.mark.parametrize(("text", "sentence"), WRONG)
def test_a_mistake_in_a_file_is_told_in_one_sentence(text, sentence):
    with pytest.raises(UsageError) as error:
        model_from_text("m", text)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_a_user_adds_a_model_by_a_file_alone(tmp_path):
    (tmp_path / "opus.toml").write_text(GOOD)
    (tmp_path / "quake3.toml").write_text(GOOD)
    models = TrafficModels([tmp_path])
    assert models["opus"].title == models["quake3"].title == "A test"
    assert "opus" in models
    assert set(models) >= OF_DITG


def test_files_of_other_programs_in_the_folder_are_no_models(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "mine"\n[tool.pytest.ini_options]\n')
    (tmp_path / "My-Site.toml").write_text('title = "My site"\n')
    (tmp_path / "opus.toml").write_text(GOOD)
    models = TrafficModels([tmp_path])
    models.check_own()
    assert {*models} - {*TrafficModels()} == {"opus"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [('title = "a"\nsource = "b"\n', "the file has 0 tables"), ("title = \n", "the file is not TOML: ")],
)
def test_a_file_that_is_a_model_but_for_a_mistake_is_one(tmp_path, text, sentence):
    (tmp_path / "opus.toml").write_text(text)
    with pytest.raises(UsageError, match=f"traffic model .*opus.toml: {sentence}"):
        TrafficModels([tmp_path]).check_own()


def test_a_wrong_file_is_named(tmp_path):
    path = tmp_path / "opus.toml"
    path.write_text(GOOD.replace("100", "0"))
    with pytest.raises(UsageError) as error:
        TrafficModels([tmp_path])["opus"]
    assert str(error.value) == f"traffic model {path}: stream 1: size_bytes is 0; it takes 1 to 65507, or 'payload'"
    path.write_bytes(b"\xff")
    with pytest.raises(UsageError, match=f"traffic model {path} cannot be read: "):
        TrafficModels([tmp_path])["opus"]


@pytest.mark.parametrize("name", ["My-Codec", "my_codec", "ipv6", "r200", "r1.5", "w2", ".hidden", "none", "tcp.up"])
def test_a_name_that_ids_cannot_have_is_refused(tmp_path, name):
    path = tmp_path / f"{name}.toml"
    path.write_text(GOOD)
    with pytest.raises(UsageError) as error:
        TrafficModels([tmp_path])
    assert str(error.value) == (
        f"traffic model {path} has a name that test ids cannot have; rename it: small letters, digits and dots, but "
        "not ipv4, ipv6, r200, w2, none or tcp.up, which mean other things in ids"
    )


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UsageError, match=rf"folder {tmp_path}/no of traffic models does not exist"):
        TrafficModels([tmp_path / "no"])


def test_a_mistyped_name_is_answered_with_the_nearest_one():
    with pytest.raises(UsageError, match=r"no traffic model 'g71\.1'; there are .*; did you mean 'g711\.1'\?"):
        TrafficModels()["g71.1"]
