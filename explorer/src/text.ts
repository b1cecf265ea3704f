/* text.ts: the words of the page in the language that was chosen. */
import { en } from "./strings_en";
import { zh } from "./strings_zh";

export type Key = keyof typeof en;
export type Language = "en" | "zh";

const languages: Record<Language, Record<Key, string>> = { en, zh };
let words: Record<Key, string> = en;
let current: Language = "en";

export function setLanguage(language: Language): void {
    words = languages[language];
    current = language;
    document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
}

export function language(): Language {
    return current;
}

/** out = sentences after each other, as the language sets them. */
export function sentences(...parts: string[]): string {
    return parts.filter(Boolean).join(current === "zh" ? "" : " ");
}

/** out = the text of a key with {name} replaced by values.name. */
export function t(key: Key, values: Record<string, string | number> = {}): string {
    return words[key].replace(/\{(\w+)\}/g, (whole, name: string) => (name in values ? String(values[name]) : whole));
}
