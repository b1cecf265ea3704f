/* chapters.ts: the chapter of the guide behind each view.  On the site it is a link; a page from disk names the file. */
import { h } from "./dom";
import { get } from "./state";
import { type Key, t } from "./text";

interface Chapter {
    title: Key;
    page: string;
    anchor: string; // of the English page; "" = its top
    anchorZh: string; // of the Chinese page
}
const rope: Chapter = { title: "chapter.rope", page: "guide/rope", anchor: "why-so-many-pairs", anchorZh: "为什么要这么多对" };
const far: Chapter = {
    title: "chapter.far",
    page: "guide/far-end",
    anchor: "which-angles-has-training-shown",
    anchorZh: "训练时见过哪些角度",
};
const reading: Chapter = {
    ...far,
    anchor: "what-does-a-model-do-at-an-angle-it-has-not-met",
    anchorZh: "遇到没见过的角度模型会怎样",
};
const CHAPTERS: Record<string, Chapter> = {
    clock: far,
    map: far,
    waves: { title: "chapter.extension", page: "guide/extension", anchor: "", anchorZh: "" },
    helix: rope,
    decay: {
        title: "chapter.rope",
        page: "guide/rope",
        anchor: "does-the-score-fall-with-the-distance",
        anchorZh: "得分会随距离衰减吗",
    },
    bias: {
        title: "chapter.relative",
        page: "guide/relative",
        anchor: "what-can-one-number-do",
        anchorZh: "一个数能做什么",
    },
    yours: { title: "chapter.choosing", page: "guide/choosing", anchor: "", anchorZh: "" },
    model: reading,
    attention: reading,
};

/* The site has the page at explorer/app.html, beside guide/ and zh/guide/. */
const HERE = /\/explorer\/app\.html$/;

/** out = the way to the chapter of a view; null for a view without one. */
export function chapterOf(view: string): HTMLElement | null {
    const chapter = CHAPTERS[view];
    if (!chapter) return null;
    const chinese = document.documentElement.lang.startsWith("zh");
    const title = t(chapter.title);
    if (!HERE.test(location.pathname)) {
        const file = `docs/${chinese ? "zh/" : ""}${chapter.page}.md`;
        return h("p", { class: "chapter" }, t("chapter.file", { title }), " ", h("code", {}, file));
    }
    const anchor = chinese ? chapter.anchorZh : chapter.anchor;
    const href = `../${chinese ? "zh/" : ""}${chapter.page}/${anchor && `#${anchor}`}`;
    return h("p", { class: "chapter" }, h("a", { href, target: "_top" }, t("chapter.link", { title })));
}

/** out = the views that alone are shown; null = all. */
export function onlyViews(): string[] | null {
    const named = get().only.split(",").filter((view) => view in CHAPTERS);
    return named.length ? named : null;
}
