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

export interface Surface {
    context: CanvasRenderingContext2D;
    width: number; // CSS pixels
    height: number;
}

/** out = a cleared canvas of the size that its place has, in CSS pixels on any screen. */
export function surface(canvas: HTMLCanvasElement): Surface {
    const ratio = Math.max(1, window.devicePixelRatio || 1);
    const width = canvas.clientWidth;
    const height = canvas.clientHeight;
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
