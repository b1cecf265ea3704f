"""Every view draws, from disk, in both languages and themes, on a phone, and for people who use a keyboard or a reader."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from explorer_fixtures import VIEWS, model_ready, number, settle, show, table

pytest_plugins = "explorer_fixtures"

# A picture is more than its ground: this share of pixels at least differs from the most frequent colour.
INKED = 0.002

# Bytes that a reader loads at most.
LARGEST_PAGE = 3_500_000

# The second place to look is the first again if the view has one picture.
PICTURES = {
    "clock": [".clock-large", ".clock-small"],
    "map": [".map-over", ".thumb canvas"],
    "waves": ["#waves-chart", "#ramp-chart"],
    "helix": [".helix-space", ".planes .front canvas", ".planes .top canvas", ".planes .side canvas"],
    "decay": ["#decay-chart"],
    "bias": ["#bias-chart", ".bias-map"],
}

SHARE_OF_INK = """canvas => {
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', { willReadFrequently: true });
    copy.drawImage(canvas, 0, 0);
    const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
    const seen = new Map();
    for (let k = 0; k < data.length; k += 4) {
        const colour = (data[k] << 24) | (data[k + 1] << 16) | (data[k + 2] << 8) | data[k + 3];
        seen.set(colour, (seen.get(colour) || 0) + 1);
    }
    return 1 - Math.max(...seen.values()) / (data.length / 4);
}"""


def test_the_page_stays_small(page_file):
    """docs/explorer.md states its size."""
    assert page_file.stat().st_size <= LARGEST_PAGE


@pytest.mark.parametrize("view", PICTURES)
def test_views_draw(open_page, view):
    page = open_page()
    show(page, view)
    for selector in PICTURES[view]:
        picture = page.locator(f"#{view} {selector}").first
        if picture.evaluate("node => node.tagName === 'CANVAS'"):
            assert picture.evaluate(SHARE_OF_INK) > INKED, selector
        else:
            drawn = picture.locator("path").evaluate_all("paths => paths.map(p => p.getAttribute('d')).join('')")
            assert len(drawn) > 300 and "NaN" not in drawn, selector
            assert picture.locator("text").count() > 5, selector
    assert page.locator(f"#{view} .readout").inner_text()
    assert table(page, view)


def test_bias_maps_draw_for_every_kind(open_page):
    page = open_page()
    show(page, "bias")
    seen = set()
    for kind in page.locator("#bias-kind option").evaluate_all("options => options.map(o => o.value)"):
        page.select_option("#bias-kind", kind)
        settle(page)
        assert page.locator(".bias-map").evaluate(SHARE_OF_INK) > 0.1, kind
        seen.add(page.locator(".bias-map").evaluate("c => c.toDataURL()"))
    assert len(seen) == 7


def test_a_knob_changes_every_view(open_page):
    page = open_page("method=none")
    for view in ("clock", "map", "waves", "decay"):
        show(page, view)
        before = page.locator(f"#{view}").screenshot()
        page.select_option("#knob-method", "linear")
        settle(page)
        assert page.locator(f"#{view}").screenshot() != before, view
        page.select_option("#knob-method", "none")
        settle(page)


def test_every_method_and_modifier_that_is_listed_can_be_chosen(open_page):
    page = open_page("method=none&trained=256&target=1024&dim=32")
    listed = page.locator("#knob-method option").evaluate_all("all => all.map(one => one.value)")
    more = page.locator("#knob-modifier option").evaluate_all("all => all.map(one => one.value)")
    assert {"yarn", "clipped", "clipped-hard"} <= set(listed) and "dynamic-linear" not in listed
    assert more == ["", "+clipped", "+clipped-hard", "+resonance"]
    for method in listed:
        page.select_option("#knob-method", method)
        settle(page)
        assert not page.locator(".knobs .alert").inner_text(), method
    page.select_option("#knob-method", "yarn")
    for modifier in more:
        page.select_option("#knob-modifier", modifier)
        settle(page)
        assert not page.locator(".knobs .alert").inner_text(), modifier
        page.wait_for_function("text => decodeURIComponent(location.hash).includes(`method=${text}`)", arg=f"yarn{modifier}")
    page.select_option("#knob-modifier", "+clipped-hard")
    page.select_option("#knob-method", "ntk")
    settle(page)
    rows = table(page, "waves")[1:]
    assert [row[2] for row in rows[-3:]] == ["∞"] * 3 and [number(row[4]) for row in rows[-3:]] == [0] * 3
    again = open_page("method=linear%2Bclipped")
    assert again.input_value("#knob-method") == "linear" and again.input_value("#knob-modifier") == "+clipped"


def test_stretched_slopes_follow_the_factor(open_page):
    page = open_page("trained=256&target=1024")
    show(page, "bias")
    sheets = {}
    for kind in ("alibi", "alibi-linear", "alibi-ntk"):
        page.select_option("#bias-kind", kind)
        settle(page)
        sheets[kind] = [[number(cell) for cell in row] for row in table(page, "bias")[1:]]
    for plain, linear, ntk in zip(*sheets.values(), strict=True):
        for head in range(8):
            assert linear[1 + head] == pytest.approx(plain[1 + head] / 4, abs=2e-4)
            assert ntk[1 + head] == pytest.approx(plain[1 + head] / 4 ** (head / 7), abs=2e-4)
    assert "4" in page.locator("#bias .about").inner_text()


def test_the_model_reads_under_methods_that_are_not_read_at_first(open_page):
    page = open_page("window=256&reads=clipped%2Cdca")
    show(page, "model")
    model_ready(page)
    names = page.locator("#model [data-perplexity]").evaluate_all("all => all.map(one => one.dataset.perplexity)")
    assert names == ["clipped", "dca"]


def test_redraw_time(open_page, capsys):
    """64 pairs x 4096 positions; the time is printed, not judged."""
    page = open_page("dim=128&trained=1024&target=4096&method=yarn", height=1500)
    page.evaluate("() => performance.clearMeasures()")
    for base in range(20, 60):
        page.locator(".knob-base input[type=range]").fill(str(base))
        settle(page)
    for name in ("explorer:angles", "explorer:clock", "explorer:map", "explorer:waves", "explorer:redraw"):
        times = sorted(page.evaluate("name => performance.getEntriesByName(name).map(e => e.duration)", name))
        assert len(times) >= 40
        with capsys.disabled():
            print(f"\n{name}, 64 pairs x 4096 positions: median {times[len(times) // 2]:.1f} ms, most {times[-1]:.1f} ms")


def test_the_address_restores_the_state(open_page):
    page = open_page()
    page.select_option("#knob-method", "ntk")
    page.fill("#knob-target", "2k")
    page.press("#knob-target", "Tab")
    page.fill("#knob-base", "5e5")
    page.press("#knob-base", "Tab")
    page.fill("#knob-pair", "11")
    page.press("#knob-pair", "Tab")
    page.fill("#config", '{"model_type": "llama"}')
    page.wait_for_function("() => location.hash.includes('config')")
    state = page.evaluate("() => location.hash.slice(1)")
    numbers = table(page, "waves")
    again = open_page(state)
    assert again.input_value("#knob-method") == "ntk"
    assert again.input_value("#knob-target") == "2k"
    assert number(again.input_value("#knob-base")) == 500000
    assert again.input_value("#knob-pair") == "11"
    show(again, "yours")
    assert again.input_value("#config") == '{"model_type": "llama"}'
    assert table(again, "waves") == numbers


def test_the_address_restores_what_the_model_reads(open_page):
    page = open_page("window=256")
    show(page, "model")
    page.fill("#model-text", "int main(void) { return 0; }\n" * 20)
    page.uncheck("#model-linear")
    page.uncheck("#model-ntk")
    page.wait_for_function("() => location.hash.includes('reads=none%2Cby-parts%2Cyarn')")
    model_ready(page)
    told = page.locator("#model .perplexities").inner_text()
    state = page.evaluate("() => location.hash.slice(1)")
    again = open_page(state)
    model_ready(again)
    assert again.input_value("#model-text") == page.input_value("#model-text")
    assert again.locator("#model .perplexities").inner_text() == told
    again.evaluate("() => { document.activeElement.blur(); location.hash = 'window=256&reads=yarn'; }")
    again.wait_for_function("() => document.querySelectorAll('#model [data-perplexity]').length === 1")
    assert "gyre_status" in again.input_value("#model-text")


def test_nonsense_in_the_address_is_ignored(open_page):
    page = open_page("method=%3Cb%3E&dim=7777&base=-1&pair=x&lang=xx&nothing=1")
    assert page.input_value("#knob-method") == "none"
    assert page.input_value("#knob-dim") == "256"
    assert not page.locator(".knobs .alert").inner_text()


@pytest.mark.parametrize("name", ["constructor", "toString", "__proto__", "hasOwnProperty"])
def test_names_that_every_object_has_are_no_state(open_page, name):
    page = open_page(f"{name}=2&pair=3")
    assert page.input_value("#knob-pair") == "3"
    assert page.locator("main").count() == 1


def test_a_choice_keeps_the_focus(open_page):
    page = open_page()
    for name in ("language-zh", "theme-dark", "language-en"):
        page.focus(f"#{name}")
        page.keyboard.press("Enter")
        page.wait_for_function("name => document.activeElement.id === name", arg=name)
        assert page.get_attribute(f"#{name}", "aria-pressed") == "true"


def test_a_method_that_the_core_refuses_is_said(open_page):
    page = open_page("method=nonsense")
    assert "nonsense" in page.locator(".knobs .alert").inner_text()
    page.select_option("#knob-method", "linear")
    settle(page)
    assert not page.locator(".knobs .alert").inner_text()


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("step", [0, 1, 2, 3, 4, 5, 6])
def test_no_horizontal_scroll_on_a_phone(open_page, step, language):
    page = open_page(f"lang={language}", width=360, height=740)
    if step:
        page.click("#tour-start")
        for _ in range(step - 1):
            page.click("#tour-next")
    for view in VIEWS:
        if page.locator(f"#{view}").is_visible():
            show(page, view)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 360


# Width and height of whatever is pressed, where one is below 24 CSS pixels (WCAG 2.2, target size).
SMALL_TARGETS = """() =>
    [...document.querySelectorAll('a[href], button, select, input, textarea, summary, [role="slider"]')]
        .filter(node => node.checkVisibility({ visibilityProperty: true }))
        .map(node => [node.id || node.textContent || node.outerHTML, node.getBoundingClientRect()])
        .filter(([, box]) => box.width < 24 || box.height < 24)
        .map(([name, box]) => `${name}: ${box.width} x ${box.height}`)"""


@pytest.mark.parametrize("state", ["lang=en", "lang=zh", "lang=en&step=2", "lang=zh&step=6"])
def test_what_is_pressed_on_a_phone_is_large_enough(open_page, state):
    page = open_page(state, width=360, height=740)
    page.evaluate("() => document.querySelectorAll('details').forEach(node => (node.open = true))")
    if "step" not in state:
        show(page, "yours")
        page.locator("#yours .samples button").first.click()
        page.wait_for_function("() => document.querySelector('.terminal').textContent.length > 100")
        for task in ("diff", "extend"):
            page.click(f"#yours button[data-value={task}]")
            settle(page)
            assert not page.evaluate(SMALL_TARGETS)
    settle(page)
    assert page.locator(".knobs input[type=range]").first.is_visible()
    assert not page.evaluate(SMALL_TARGETS)


def violations(page) -> str:
    results = Axe().run(page, options={"resultTypes": ["violations"]})
    return "" if results.violations_count == 0 else results.generate_report()


@pytest.mark.parametrize("state", ["theme=light", "theme=dark", "theme=light&lang=zh"])
def test_axe_finds_nothing(open_page, state):
    page = open_page(state)
    for view in VIEWS:
        show(page, view)
        if page.locator(f"#{view} details.data").count():
            page.locator(f"#{view} details.data > summary").click()
    page.locator("#yours .samples button").first.click()
    page.wait_for_function("() => document.querySelector('.terminal').textContent.length > 100")
    model_ready(page)
    assert not violations(page)


@pytest.mark.parametrize("step", [1, 4, 6])
def test_axe_finds_nothing_on_the_tour(open_page, step):
    page = open_page("theme=dark", width=360, height=740)
    page.click("#tour-start")
    for _ in range(step - 1):
        page.click("#tour-next")
    settle(page)
    assert not violations(page)


def test_keyboard_reaches_and_turns_everything(open_page):
    page = open_page("method=none")
    reached = []
    for _ in range(200):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                "() => { const { id, className } = document.activeElement; return id || className.baseVal || className; }"
            )
        )
    for wanted in (
        "knob-method",
        "knob-trained",
        "knob-pair",
        "knob-dim",
        "clock-m",
        "clock-small",
        "map-over",
        "waves-chart",
        "helix-space",
        "decay-chart",
        "bias-kind",
        "bias-map",
        "config",
        "model-text",
        "model-run",
        "model-shift",
        "model-hide",
        "attention-layer",
        "attention-none",
        "score-both",
    ):
        assert wanted in reached, wanted
    for selector, key, value in (
        (".map-over", "ArrowRight", "aria-valuenow"),
        (".clock-small", "ArrowRight", "aria-valuenow"),
        (".helix-space", "ArrowLeft", "aria-valuenow"),
        ("#waves-chart", "ArrowLeft", "aria-valuenow"),
        ("#decay-chart", "ArrowRight", "aria-valuenow"),
        (".bias-map", "ArrowRight", "aria-valuenow"),
    ):
        figure = page.locator(selector)
        figure.scroll_into_view_if_needed()
        settle(page)
        before = figure.get_attribute(value)
        figure.focus()
        page.keyboard.press(key)
        settle(page)
        assert figure.get_attribute(value) != before, selector
        outline = figure.evaluate("node => getComputedStyle(node).outlineStyle")
        assert outline != "none", f"{selector}: focus is not visible"


def test_reduced_motion(open_page):
    page = open_page("method=none", reduced_motion="reduce")
    show(page, "clock")
    before = page.input_value("#clock-m")
    page.click("#clock .play")
    settle(page)
    moved = page.input_value("#clock-m")
    assert moved != before, "the button steps"
    page.wait_for_timeout(400)
    assert page.input_value("#clock-m") == moved, "and nothing moves by itself"
    assert page.evaluate("() => getComputedStyle(document.documentElement).scrollBehavior") == "auto"


def test_motion_otherwise(open_page):
    page = open_page("method=none")
    show(page, "clock")
    page.click("#clock .play")
    before = page.input_value("#clock-m")
    page.wait_for_timeout(400)
    assert page.input_value("#clock-m") != before


def test_themes(open_page):
    def ground(page):
        return page.evaluate("() => getComputedStyle(document.body).backgroundColor")

    light, dark = open_page(color_scheme="light"), open_page(color_scheme="dark")
    assert ground(light) != ground(dark)
    assert ground(open_page("theme=dark", color_scheme="light")) == ground(dark)
    assert ground(open_page("theme=light", color_scheme="dark")) == ground(light)


def test_the_tour(open_page):
    page = open_page()
    page.click("#tour-start")
    texts = []
    for step in range(1, 7):
        settle(page)
        assert f"step={step}" in page.evaluate("() => (new Promise(r => setTimeout(() => r(location.hash), 250)))")
        title = page.locator("#tour-title").inner_text()
        assert page.evaluate("() => document.activeElement.id") == "tour-title"
        text = page.locator(".tour-text").inner_text()
        assert "{" not in text and "NaN" not in text
        assert sum(page.locator(f"#{view}").is_visible() for view in VIEWS) == 2
        texts.append((title, text))
        page.click("#tour-next")
    assert len(set(texts)) == 6
    settle(page)
    assert all(page.locator(f"#{view}").is_visible() for view in VIEWS)
    assert page.locator(".tour").is_hidden()


def test_the_language_switch(open_page):
    page = open_page()
    english = page.locator("main").inner_text()
    page.click("button[data-value=zh]")
    page.wait_for_function("() => document.documentElement.lang === 'zh-CN'")
    chinese = page.locator("main").inner_text()
    assert "旋转位置编码" in chinese and "波长" in chinese
    left = [line for line in english.splitlines() if len(line) > 30 and line in chinese]
    # What the model reads and what the command prints stay as they are.
    assert not left, left
