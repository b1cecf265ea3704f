/* dom.ts: elements in one call, and canvases that fit their place on the screen. */

type Child = Node | string | number | null | undefined | false;
type Value = string | number | boolean | null | undefined | ((event: never) => void);
type Attributes = Record<string, Value>;

function fill(node: Element, attributes: Attributes, children: Child[]): void {
    for (const [name, value] of Object.entries(attributes)) {
        if (typeof value === "function") node.addEventListener(name, value as EventListener);
        else if (value === true) node.setAttribute(name, "");
        else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, String(value));
    }
    for (const child of children) {
        if (child === null || child === undefined || child === false) continue;
        node.append(child instanceof Node ? child : String(child));
    }
}

/** out = an HTML element; a function among the attributes listens to the event of that name. */
export function h<K extends keyof HTMLElementTagNameMap>(
    tag: K,
    attributes: Attributes = {},
    ...children: Child[]
): HTMLElementTagNameMap[K] {
    const node = document.createElement(tag);
    fill(node, attributes, children);
    return node;
}

/** out = an SVG element. */
export function s<K extends keyof SVGElementTagNameMap>(
    tag: K,
    attributes: Attributes = {},
    ...children: Child[]
): SVGElementTagNameMap[K] {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    fill(node, attributes, children);
    return node;
}

/** Sets the text of a node unless it is there already: screen readers announce changes only. */
export function say(node: Element, text: string): void {
    if (node.textContent !== text) node.textContent = text;
}

interface Size {
    width: number;
    height: number;
}
/* Sizes are kept: to ask an element for its own after another has changed makes the browser lay out the page. */
const sizes = new WeakMap<Element, Size>();
let resized: () => void = () => {};
const observer = new ResizeObserver((entries) => {
    let changed = false;
    for (const { target } of entries) {
        const size = { width: target.clientWidth, height: target.clientHeight };
        const old = sizes.get(target);
        changed ||= !old || old.width !== size.width || old.height !== size.height;
        sizes.set(target, size);
    }
    if (changed) resized();
});

/** Calls back when a figure that was drawn has another size. */
export function onResize(callback: () => void): void {
    resized = callback;
}

/** out = the size of an element's place, in CSS pixels. */
export function sizeOf(node: Element): Size {
    const known = sizes.get(node);
    if (known) return known;
    const size = { width: node.clientWidth, height: node.clientHeight };
    sizes.set(node, size);
    observer.observe(node);
    return size;
}

/** Gives an element another height. */
export function setHeight(node: HTMLElement, height: number): void {
    const size = sizeOf(node);
    if (size.height === height) return;
    node.style.height = `${height}px`;
    sizes.set(node, { width: size.width, height });
}

export interface Surface {
    context: CanvasRenderingContext2D;
    width: number; // CSS pixels
    height: number;
}

/** out = a cleared canvas of the size that its place has, in CSS pixels on any screen. */
export function surface(canvas: HTMLCanvasElement): Surface {
    const ratio = Math.max(1, window.devicePixelRatio || 1);
    const { width, height } = sizeOf(canvas);
    const wide = Math.round(width * ratio);
    const high = Math.round(height * ratio);
    if (canvas.width !== wide || canvas.height !== high) {
        canvas.width = wide;
        canvas.height = high;
    }
    const context = canvas.getContext("2d")!;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    return { context, width, height };
}

/** out = where a pointer is within a node, in CSS pixels from its top left corner. */
export function pointerAt(event: PointerEvent, node: Element): { x: number; y: number } {
    const box = node.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
}

/** Calls back while a pointer is down on the node, and as it moves if `hover`. */
export function onPointer(node: Element, at: (event: PointerEvent) => void): void {
    let down = false;
    node.addEventListener("pointerdown", (event) => {
        const pointer = event as PointerEvent;
        down = true;
        node.setPointerCapture(pointer.pointerId);
        at(pointer);
    });
    node.addEventListener("pointermove", (event) => {
        if (down) at(event as PointerEvent);
    });
    for (const end of ["pointerup", "pointercancel"]) node.addEventListener(end, () => (down = false));
}

export function reducedMotion(): boolean {
    return matchMedia("(prefers-reduced-motion: reduce)").matches;
}
