"""What the page teaches: that a score sees distances, how far past training an angle is, and what a sum of pairs does."""

import math
import re
import shutil
from pathlib import Path

import pytest
from explorer_fixtures import VIEWS, model_ready, number, settle, show, table

pytest_plugins = "explorer_fixtures"
SHAPE = "trained=256&target=1024&dim=32"


def clock(page) -> tuple[int, str]:
    """out = pairs that the clock calls unseen, and what it says about the chosen pair."""
    show(page, "clock")
    found = re.search(r"(\d+) of 16 pairs", page.locator("#clock .readout").inner_text())
    assert found
    return int(found[1]), page.locator("#clock .facts dd").last.inner_text()


@pytest.mark.parametrize(
    ("m", "n", "unseen"), [(680, 620, False), (60, 0, False), (400, 60, True), (1000, 660, True), (340, 0, True)]
)
def test_the_clock_judges_the_distance(open_page, m, n, unseen):
    """60 tokens apart everything is seen, wherever both are; 340 apart pair 7 is past its arc, though both are near."""
    strange, chosen = clock(open_page(f"method=none&{SHAPE}&pair=7&m={m}&n={n}"))
    assert (strange > 0) == unseen
    assert ("past the trained arc" in chosen) == unseen


def test_moving_both_changes_nothing(open_page):
    told = {clock(open_page(f"method=none&{SHAPE}&pair=9&m={300 + by}&n={by}")) for by in (0, 200, 500, 700)}
    assert len(told) == 1


def test_a_key_after_the_query_is_masked(open_page):
    page = open_page(f"method=none&{SHAPE}&m=100&n=400")
    show(page, "clock")
    assert "does not look at it" in page.locator("#clock .readout").inner_text()
    assert "after the query" in page.locator("#clock .facts dd").last.inner_text()


# The colours of each pair's row in the map, from its middle, within the axes (LEFT, TOP, BOTTOM of view_map.ts); a run is a
# colour and how many neighbouring pixels of the screen have it.
RUNS_OF_ROWS = """pairs => {
    const canvas = document.querySelector('.map-over'), ratio = devicePixelRatio;
    const high = canvas.clientHeight - 18 - 34, wide = Math.round((canvas.clientWidth - 74 - 8) * ratio);
    const { data } = canvas.getContext('2d').getImageData(74 * ratio, 0, wide, canvas.height);
    return Array.from({ length: pairs }, (_, pair) => {
        const from = Math.floor((18 + (pair + 0.5) * high / pairs) * ratio) * wide, runs = [];
        for (let at = from; at < from + wide; at++) {
            const colour = data.slice(4 * at, 4 * at + 3).join();
            if (runs.length && runs[runs.length - 1][0] === colour) runs[runs.length - 1][1]++;
            else runs.push([colour, 1]);
        }
        return runs;
    });
}"""


@pytest.mark.parametrize(("width", "ratio"), [(1280, 1), (1280, 2), (390, 1), (390, 3)])
def test_the_map_has_a_column_for_each_pixel_of_the_screen(open_page, width, ratio):
    page = open_page("dim=128&trained=4096&target=32768&pair=63", width=width, device_scale_factor=ratio)
    wavelengths = [number(row[1]) for row in table(page, "map")[1:]]
    rows = page.evaluate(RUNS_OF_ROWS, 64)
    pixels = sum(count for _, count in rows[0])
    span = 32768 / pixels
    rounds = [pair for pair, wavelength in enumerate(wavelengths) if wavelength < 0.98 * span]
    assert len(rounds) > 3
    for pair in rounds:
        grey = max(rows[pair], key=lambda run: run[1])[0]
        assert len(set(grey.split(","))) == 1, f"pair {pair} goes round within a pixel: {grey}"
        # The border of the trained length alone is not grey.
        others = sum(count for colour, count in rows[pair] if colour != grey)
        assert others <= 4 * ratio, f"pair {pair}: {rows[pair][:8]}"
    # A pair that can be told apart has another colour in nearly every pixel.
    clear = next(pair for pair, wavelength in enumerate(wavelengths) if wavelength > 6 * span)
    assert len(rows[clear]) > 0.8 * pixels


def test_the_map_is_over_distances(open_page):
    """The cursor is the distance; moving it keeps the key where it is."""
    page = open_page(f"method=none&{SHAPE}&m=400&n=60&pair=7")
    show(page, "map")
    over = page.locator(".map-over")
    assert over.get_attribute("aria-valuenow") == "340"
    assert "past the arc" in page.locator("#map .readout").inner_text()
    over.focus()
    page.keyboard.press("ArrowRight")
    settle(page)
    assert page.input_value("#clock-n") == "60" and page.input_value("#clock-m") == "404"


def test_how_far_past_the_arc(open_page):
    """Dynamic NTK is a little past it, the unchanged model three arcs: not the same mark for both."""
    most = {}
    for method in ("none", "ntk", "dynamic", "linear"):
        rows = table(open_page(f"method={method}&{SHAPE}"), "map")[1:]
        most[method] = max(number(row[-2].removesuffix(" %")) for row in rows)
    assert most["none"] == pytest.approx(100 * (1023 / 256 - 1), rel=0.02)
    assert most["linear"] == 0 and 0 < most["dynamic"] < most["ntk"] < 100


def test_a_step_in_an_address_sets_its_knobs(open_page):
    page = open_page("step=6")
    assert page.input_value("#knob-method") == "yarn" and page.input_value("#knob-target") == "512"
    page.wait_for_function("() => document.querySelector('#model .perplexities caption')?.textContent === 'Windows of 512 tokens'")
    page = open_page("step=4&method=linear")
    assert page.input_value("#knob-method") == "linear", "what the address says itself stays"


def test_the_last_step_measures_its_window(open_page):
    """Though the model had read another one before."""
    page = open_page("window=1024&reads=none")
    model_ready(page)
    assert page.locator("#model .perplexities caption").inner_text() == "Windows of 1k tokens"
    page.evaluate("() => scrollTo(0, 0)")
    page.click("#tour-start")
    for _ in range(5):
        page.click("#tour-next")
    page.wait_for_function("() => document.querySelector('#model .perplexities caption').textContent === 'Windows of 512 tokens'")
    model_ready(page)


def test_the_loss_stays_when_all_positions_move(open_page):
    page = open_page("window=256&reads=none%2Cyarn")
    model_ready(page)
    page.click("#model-shift")
    page.wait_for_function("() => document.querySelectorAll('#model [data-moved]').length === 2")
    model_ready(page)
    for method in ("none", "yarn"):
        here = number(page.locator(f"#model [data-perplexity={method}]").inner_text())
        page.wait_for_function("m => document.querySelector(`#model [data-moved=${m}]`).textContent !== '…'", arg=method)
        assert number(page.locator(f"#model [data-moved={method}]").inner_text()) == pytest.approx(here, rel=1e-3)
    page.wait_for_function("() => location.hash.includes('first=100000')")
    assert "a score sees no position" in page.locator("#model .readout").inner_text()


def attention(page) -> None:
    show(page, "attention")
    page.wait_for_function("() => document.querySelectorAll('#attention-yarn span').length > 300")
    settle(page)


def test_where_a_head_looks(open_page):
    """Without a method, past the trained length, far keys take the weight; under YaRN they do not."""
    page = open_page()
    attention(page)
    share = {name: page.locator(f"[data-far={name}]").inner_text().split(" %")[0] for name in ("none", "yarn")}
    assert number(share["none"]) > 90 and number(share["yarn"]) < 5
    assert page.locator("#attention-none .is-query").count() == 1
    assert page.locator("#attention-none span.masked").count() == 384 - 351
    page.locator("#attention-none").focus()
    page.keyboard.press("Home")
    settle(page)
    assert page.locator("#attention-none span.masked").count() == 383
    assert page.locator("[data-far=none]").inner_text().startswith("0 %")


def wall(page, seconds: int) -> dict[str, list[tuple[float, float]]]:
    """out = the tips of the second, the minute and the hour hand under each method."""
    show(page, "clock")
    if page.locator(".wall").get_attribute("open") is None:
        page.locator(".wall summary").click()
    page.locator("#wall-seconds").fill(str(seconds))
    settle(page)
    tips = """nodes => Object.fromEntries(nodes.map(node => [node.dataset.wall, ['second', 'minute', 'hour'].map(name => {
        const hand = node.querySelector(`.wall-${name}`);
        return [Number(hand.getAttribute('x2')), Number(hand.getAttribute('y2'))];
    })]))"""
    return page.locator("[data-wall]").evaluate_all(tips)


def test_the_wall_clock_past_its_hours(open_page):
    """Unchanged it shows twelve hours later what it showed; a slowed hour hand does not, and NTK keeps the second hand."""
    page = open_page()
    at, later = wall(page, 10000), wall(page, 10000 + 43200)
    for name in ("none", "linear", "ntk"):
        for hand in range(3):
            period = (60, 3600, 43200)[hand] * {"none": 1, "linear": 3, "ntk": 3 ** (hand / 2)}[name]
            for tips, seconds in ((at, 10000), (later, 53200)):
                x, y = tips[name][hand]
                angle = 2 * math.pi * seconds / period
                assert x * math.cos(angle) + y * math.sin(angle) == pytest.approx(0, abs=1e-3), (name, hand)
                assert x * math.sin(angle) - y * math.cos(angle) > 0.5
    assert later["none"] == at["none"] and later["linear"][2] != at["linear"][2] and later["ntk"][0] == at["none"][0]
    told = page.locator(".wall figure").all_inner_texts()
    assert "the same again" in told[0] and "No two moments" in told[1] and "divided by 1.73" in told[2]


def test_the_bars_begin_at_the_chosen_letters(open_page):
    """Though another view has put query and key elsewhere; then both views move together."""
    page = open_page("m=120&n=100&query=350&key=3")
    attention(page)
    page.wait_for_function("() => location.hash.includes('m=350') && location.hash.includes('n=3')")
    assert "347 tokens apart" in page.locator("#attention .readout").inner_text()
    page.locator("#score-key").fill("20")
    settle(page)
    assert "20 tokens apart" in page.locator("#attention .readout").inner_text()


def bars(page) -> list[float]:
    return [number(cell) for row in table(page, "attention")[1:] for cell in (row[3], row[6])]


def test_bars_stand_still_together_and_swing_apart(open_page):
    page = open_page("target=4096")
    attention(page)
    before = bars(page)
    for name, column in (("none", 0), ("yarn", 1)):
        assert number(page.locator(f"[data-score={name}]").inner_text()) == pytest.approx(sum(before[column::2]), abs=2e-3)
    rows = table(page, "attention")[1:]
    for row in rows:
        assert abs(number(row[3])) <= number(row[1]) + 1e-4
    page.locator("#score-both").fill("3000")
    settle(page)
    page.wait_for_function("() => location.hash.includes('n=3000') && location.hash.includes('m=3347')")
    assert bars(page) == pytest.approx(before, abs=2e-3)
    page.locator("#score-key").fill("20")
    settle(page)
    assert max(abs(a - b) for a, b in zip(bars(page), before, strict=True)) > 0.1


def test_keys_after_the_query_are_masked_in_biases(open_page):
    page = open_page("bias=alibi&span=64")
    show(page, "bias")
    canvas = page.locator(".bias-map")
    alpha = """([m, n]) => {
        const canvas = document.querySelector('.bias-map');
        const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', { willReadFrequently: true });
        copy.drawImage(canvas, 0, 0);
        return copy.getImageData((n + 0.5) * canvas.width / 64, (m + 0.5) * canvas.height / 64, 1, 1).data[3];
    }"""
    assert canvas.evaluate("c => c.width") > 64
    assert page.evaluate(alpha, [40, 10]) == 255 and page.evaluate(alpha, [10, 40]) == 0
    page.select_option("#bias-kind", "deberta")
    settle(page)
    assert page.evaluate(alpha, [10, 40]) == 255, "an encoder looks both ways"


def test_the_summary_of_the_knobs_shows_that_it_opens(open_page):
    page = open_page("", width=390, height=800)
    sign = "() => getComputedStyle(document.querySelector('.knob-summary'), '::after').content"
    closed = page.evaluate(sign)
    page.locator(".knob-summary").click()
    assert closed not in ("none", "normal", '""') and page.evaluate(sign) != closed


def test_a_view_alone(open_page):
    """What a page of the guide shows: one view in a state, its knobs closed, nothing around it."""
    page = open_page("only=clock&method=yarn&m=400&n=60")
    assert [view for view in VIEWS if page.locator(f"#{view}").is_visible()] == ["clock"]
    assert not page.locator("h1").is_visible() and not page.locator("#knob-method").is_visible()
    assert page.locator(".knob-summary").is_visible() and "YaRN" in page.locator(".knob-summary").inner_text()
    page = open_page("only=nonsense")
    assert all(page.locator(f"#{view}").is_visible() for view in VIEWS)


def test_a_clock_that_runs_from_the_start(open_page):
    page = open_page("only=clock&play=1&m=400&n=60")
    page.wait_for_function("() => document.querySelector('#clock-m').value !== '400'")
    told = page.evaluate("() => ['m', 'n'].map(which => Number(document.querySelector(`#clock-${which}`).value))")
    assert told[0] - told[1] == 340
    still = open_page("only=clock&play=1&m=400&n=60", reduced_motion="reduce")
    still.wait_for_timeout(400)
    assert still.input_value("#clock-m") == "400"


def headings(chapter: Path) -> set[str]:
    """The anchors that the site gives the headings of a chapter."""
    lines = re.findall(r"^## (.+)$", chapter.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_views_lead_to_their_chapters(open_page, page_file, tmp_path, language):
    """On the site by a link; from disk by the name of the file."""
    root = page_file.parents[2]
    page = open_page(f"lang={language}")
    for view in VIEWS:
        name = page.locator(f"#{view} .chapter code").inner_text()
        assert ("docs/zh/guide/" in name) == (language == "zh")
        if (root / "docs").is_dir():
            assert (root / name).is_file(), name
    (tmp_path / "explorer").mkdir()
    shutil.copyfile(page_file, tmp_path / "explorer/app.html")
    page = open_page(f"lang={language}", path=tmp_path / "explorer/app.html")
    for view in VIEWS:
        link = page.locator(f"#{view} .chapter a").get_attribute("href")
        assert link.startswith("../zh/guide/" if language == "zh" else "../guide/"), link
        chapter, _, anchor = link.removeprefix("../").partition("/#")
        if anchor and (root / "docs").is_dir():
            assert anchor in headings(root / "docs" / f"{chapter}.md"), link
        assert anchor or view in ("waves", "yours"), "another view has its own section"


def test_a_model_by_name(open_page, gyre, tmp_path):
    """The answer of extend comes first, and a comparison shows what each program reads."""
    page = open_page()
    show(page, "yours")
    names = page.locator("#yours-named option").all_inner_texts()
    assert len(names) > 40 and {"Llama 3.1 8B", "GPT-2", "Qwen3 8B"} <= set(names)
    page.select_option("#yours-named", "Llama 2 7B")
    page.wait_for_function("() => document.querySelector('#yours .answer').textContent.length > 40")
    (tmp_path / "config.json").write_text(page.input_value("#config"))
    told = gyre("extend", "config.json", "--to", "16384", "--as", "hf-5", cwd=tmp_path).stdout
    assert page.locator("#yours .answer").evaluate("node => node.textContent") == told.rstrip()
    page.click("#yours button[data-value=diff]")
    page.wait_for_function("() => [...document.querySelectorAll('.terminal-side')].every(side => side.textContent.length > 40)")
    settle(page)
    sides = page.locator(".terminal-side").evaluate_all("all => all.map(one => one.textContent)")
    for side, program in zip(sides, ("hf-5", "llama.cpp"), strict=True):
        assert side == gyre("explain", "config.json", "--as", program, cwd=tmp_path).stdout


def test_lines_of_biases_have_the_colours_of_their_encodings(open_page):
    page = open_page("bias=alibi")
    show(page, "bias")
    seen = {}
    for kind in ("alibi", "t5", "fire", "sandwich"):
        page.select_option("#bias-kind", kind)
        settle(page)
        seen[kind] = page.locator("#bias-chart .line.main").evaluate("node => getComputedStyle(node).stroke")
    assert len(set(seen.values())) == 4
    assert seen["alibi"] == "rgb(213, 94, 0)", "VERMILLION of report_palette.def"
