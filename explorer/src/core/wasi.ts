/* wasi.ts: the system that the core sees in a page: files in memory, standard streams, a clock, random numbers.  The part of
 * WASI preview 1 that wasi-libc calls; nothing outside the page is reached. */

/** proc_exit as an exception: it unwinds the call that ended the program. */
export class Exit extends Error {
    constructor(readonly status: number) {
        super(`exit ${status}`);
    }
}

const SUCCESS = 0, BADF = 8, EXIST = 20, INVAL = 28, ISDIR = 31, NOENT = 44, NOTDIR = 54, NOTEMPTY = 55;
const TYPE_STREAM = 0, TYPE_FOLDER = 3, TYPE_FILE = 4;
const OPEN_CREATE = 1, OPEN_FOLDER = 2, OPEN_EXCLUSIVE = 4, OPEN_TRUNCATE = 8, APPEND = 1;
const STDOUT = 1, STDERR = 2, ROOT = 3;

/** A file; `size` bytes of `bytes` are its content. */
interface Node {
    bytes: Uint8Array;
    size: number;
    number: bigint;
}
interface Open {
    path: string; // normal: "/a/b"; "" = a standard stream
    node: Node | null; // null: a folder or a stream
    offset: number;
    append: boolean;
}

/** out = "/a/b" for "a//./b", "/a/c/../b", ... */
export function normalPath(path: string): string {
    const parts: string[] = [];
    for (const part of path.split("/")) {
        if (part === "" || part === ".") continue;
        if (part === "..") parts.pop();
        else parts.push(part);
    }
    return "/" + parts.join("/");
}

/** The files of one instance.  Paths are relative to "/", the working folder. */
export class Files {
    private nodes = new Map<string, Node>();
    private folders = new Set<string>(["/"]);
    private counter = 1n;
    /** Paths that were created or written since the last put. */
    readonly written = new Set<string>();

    put(path: string, bytes: Uint8Array): void {
        const name = normalPath(path);
        this.makeParents(name);
        this.nodes.set(name, { bytes, size: bytes.length, number: this.counter++ });
        this.written.delete(name);
    }

    get(path: string): Uint8Array | undefined {
        const node = this.nodes.get(normalPath(path));
        return node && node.bytes.slice(0, node.size);
    }

    node(path: string): Node | undefined {
        return this.nodes.get(path);
    }

    isFolder(path: string): boolean {
        return this.folders.has(path);
    }

    create(path: string): Node {
        const node = { bytes: new Uint8Array(0), size: 0, number: this.counter++ };
        this.nodes.set(path, node);
        this.written.add(path);
        return node;
    }

    makeFolder(path: string): number {
        if (this.folders.has(path) || this.nodes.has(path)) return EXIST;
        if (!this.folders.has(parentOf(path))) return NOENT;
        this.folders.add(path);
        return SUCCESS;
    }

    removeFile(path: string): number {
        this.written.delete(path);
        if (this.folders.has(path)) return ISDIR;
        return this.nodes.delete(path) ? SUCCESS : NOENT;
    }

    removeFolder(path: string): number {
        if (!this.folders.has(path)) return this.nodes.has(path) ? NOTDIR : NOENT;
        if (this.names(path).length) return NOTEMPTY;
        this.folders.delete(path);
        return SUCCESS;
    }

    rename(from: string, to: string): number {
        const node = this.nodes.get(from);
        if (!node) return NOENT;
        if (this.folders.has(to)) return ISDIR;
        this.nodes.delete(from);
        this.nodes.set(to, node);
        this.written.delete(from);
        this.written.add(to);
        return SUCCESS;
    }

    /** out = the names in a folder, sorted. */
    names(path: string): string[] {
        const prefix = path === "/" ? "/" : path + "/";
        const inside = (name: string) =>
            name !== "/" && name.startsWith(prefix) && !name.slice(prefix.length).includes("/");
        return [...this.nodes.keys(), ...this.folders].filter(inside).map((name) => name.slice(prefix.length)).sort();
    }

    private makeParents(path: string): void {
        for (let folder = parentOf(path); !this.folders.has(folder); folder = parentOf(folder)) this.folders.add(folder);
    }
}

function parentOf(path: string): string {
    return path.slice(0, path.lastIndexOf("/")) || "/";
}

function join(folder: string, name: string): string {
    return normalPath(name.startsWith("/") ? name : folder + "/" + name);
}

/** The imports of one instance.  `memory` is set once the instance exists. */
export class Wasi {
    memory!: WebAssembly.Memory;
    private open = new Map<number, Open>();
    private streams = new Map<number, Uint8Array[]>([
        [STDOUT, []],
        [STDERR, []],
    ]);
    private text = new TextDecoder();

    constructor(readonly files: Files, private environment: string[] = []) {
        for (let fd = 0; fd < ROOT; fd++) this.open.set(fd, { path: "", node: null, offset: 0, append: false });
        this.open.set(ROOT, { path: "/", node: null, offset: 0, append: false });
    }

    /** out = what was written to standard output (1) or standard error (2). */
    printed(stream: 1 | 2): Uint8Array {
        const parts = this.streams.get(stream) ?? [];
        const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
        let at = 0;
        for (const part of parts) {
            all.set(part, at);
            at += part.length;
        }
        return all;
    }

    imports(): Record<string, Function> {
        return {
            environ_sizes_get: (count: number, bytes: number) => this.listSizes(this.environment, count, bytes),
            environ_get: (pointers: number, bytes: number) => this.list(this.environment, pointers, bytes),
            args_sizes_get: (count: number, bytes: number) => this.listSizes([], count, bytes),
            args_get: (pointers: number, bytes: number) => this.list([], pointers, bytes),
            clock_time_get: (id: number, precision: bigint, out: number) => this.clock(id, out),
            random_get: (at: number, count: number) => this.random(at, count),
            proc_exit: (status: number) => {
                throw new Exit(status);
            },
            sched_yield: () => SUCCESS,
            fd_prestat_get: (fd: number, out: number) => this.prestat(fd, out),
            fd_prestat_dir_name: (fd: number, at: number, length: number) => this.prestatName(fd, at, length),
            fd_fdstat_get: (fd: number, out: number) => this.descriptorStatus(fd, out),
            fd_fdstat_set_flags: (fd: number) => (this.open.has(fd) ? SUCCESS : BADF),
            fd_filestat_get: (fd: number, out: number) => this.status(this.open.get(fd), out),
            fd_filestat_set_size: (fd: number, size: bigint) => this.resize(fd, Number(size)),
            fd_read: (fd: number, vectors: number, count: number, out: number) => this.read(fd, vectors, count, null, out),
            fd_pread: (fd: number, vectors: number, count: number, offset: bigint, out: number) =>
                this.read(fd, vectors, count, Number(offset), out),
            fd_write: (fd: number, vectors: number, count: number, out: number) => this.write(fd, vectors, count, out),
            fd_seek: (fd: number, offset: bigint, whence: number, out: number) => this.seek(fd, Number(offset), whence, out),
            fd_close: (fd: number) => (this.open.delete(fd) ? SUCCESS : BADF),
            fd_sync: (fd: number) => (this.open.has(fd) ? SUCCESS : BADF),
            fd_datasync: (fd: number) => (this.open.has(fd) ? SUCCESS : BADF),
            fd_readdir: (fd: number, at: number, length: number, cookie: bigint, out: number) =>
                this.readFolder(fd, at, length, Number(cookie), out),
            path_open: (fd: number, follow: number, at: number, length: number, flags: number, base: bigint, heirs: bigint,
                options: number, out: number) => this.openPath(this.path(fd, at, length), flags, options, out),
            path_filestat_get: (fd: number, follow: number, at: number, length: number, out: number) =>
                this.pathStatus(this.path(fd, at, length), out),
            path_create_directory: (fd: number, at: number, length: number) =>
                this.files.makeFolder(this.path(fd, at, length)),
            path_unlink_file: (fd: number, at: number, length: number) => this.files.removeFile(this.path(fd, at, length)),
            path_remove_directory: (fd: number, at: number, length: number) =>
                this.files.removeFolder(this.path(fd, at, length)),
            path_rename: (fd: number, at: number, length: number, fdTo: number, atTo: number, lengthTo: number) =>
                this.files.rename(this.path(fd, at, length), this.path(fdTo, atTo, lengthTo)),
            path_readlink: () => INVAL, // no file is a link
        };
    }

    /* -- memory -- */
    private view(): DataView {
        return new DataView(this.memory.buffer);
    }

    private bytes(at: number, length: number): Uint8Array {
        return new Uint8Array(this.memory.buffer, at, length);
    }

    private path(fd: number, at: number, length: number): string {
        return join(this.open.get(fd)?.path ?? "/", this.text.decode(this.bytes(at, length).slice()));
    }

    private listSizes(list: string[], count: number, bytes: number): number {
        const view = this.view();
        view.setUint32(count, list.length, true);
        view.setUint32(bytes, list.reduce((sum, item) => sum + new TextEncoder().encode(item).length + 1, 0), true);
        return SUCCESS;
    }

    private list(list: string[], pointers: number, bytes: number): number {
        for (const item of list) {
            const encoded = new TextEncoder().encode(item + "\0");
            this.view().setUint32(pointers, bytes, true);
            this.bytes(bytes, encoded.length).set(encoded);
            pointers += 4;
            bytes += encoded.length;
        }
        return SUCCESS;
    }

    /* -- clock and chance -- */
    private clock(id: number, out: number): number {
        const nanoseconds = id === 0 ? BigInt(Date.now()) * 1000000n : BigInt(Math.round(performance.now() * 1e6));
        this.view().setBigUint64(out, nanoseconds, true);
        return SUCCESS;
    }

    private random(at: number, count: number): number {
        for (let done = 0; done < count; done += 65536) // the most that one call gives
            this.bytes(at + done, Math.min(65536, count - done)).set(
                crypto.getRandomValues(new Uint8Array(Math.min(65536, count - done))));
        return SUCCESS;
    }

    /* -- descriptors -- */
    private prestat(fd: number, out: number): number {
        if (fd !== ROOT) return BADF;
        this.view().setUint32(out, 0, true); // a folder
        this.view().setUint32(out + 4, 1, true); // bytes of "/"
        return SUCCESS;
    }

    private prestatName(fd: number, at: number, length: number): number {
        if (fd !== ROOT || length < 1) return BADF;
        this.bytes(at, 1)[0] = 0x2f;
        return SUCCESS;
    }

    private typeOf(open: Open): number {
        return open.path === "" ? TYPE_STREAM : open.node ? TYPE_FILE : TYPE_FOLDER;
    }

    private descriptorStatus(fd: number, out: number): number {
        const open = this.open.get(fd);
        if (!open) return BADF;
        const view = this.view();
        view.setUint8(out, this.typeOf(open));
        view.setUint16(out + 2, open.append ? APPEND : 0, true);
        view.setBigUint64(out + 8, ~0n, true); // every right
        view.setBigUint64(out + 16, ~0n, true);
        return SUCCESS;
    }

    private status(open: Open | undefined, out: number): number {
        if (!open) return BADF;
        this.bytes(out, 64).fill(0);
        const view = this.view();
        view.setBigUint64(out + 8, open.node ? open.node.number : 0n, true);
        view.setUint8(out + 16, this.typeOf(open));
        view.setBigUint64(out + 24, 1n, true);
        view.setBigUint64(out + 32, BigInt(open.node ? open.node.size : 0), true);
        return SUCCESS;
    }

    private pathStatus(path: string, out: number): number {
        const node = this.files.node(path) ?? null;
        if (!node && !this.files.isFolder(path)) return NOENT;
        return this.status({ path, node, offset: 0, append: false }, out);
    }

    private openPath(path: string, flags: number, options: number, out: number): number {
        let node = this.files.node(path) ?? null;
        const isFolder = this.files.isFolder(path);
        if ((node || isFolder) && flags & OPEN_CREATE && flags & OPEN_EXCLUSIVE) return EXIST;
        if (node && flags & OPEN_FOLDER) return NOTDIR;
        if (isFolder && flags & (OPEN_CREATE | OPEN_TRUNCATE)) return ISDIR;
        if (!node && !isFolder) {
            if (!(flags & OPEN_CREATE) || !this.files.isFolder(parentOf(path))) return NOENT;
            node = this.files.create(path);
        }
        if (node && flags & OPEN_TRUNCATE) {
            node.size = 0;
            node.bytes = new Uint8Array(0);
            this.files.written.add(path);
        }
        let fd = ROOT + 1;
        while (this.open.has(fd)) fd++;
        this.open.set(fd, { path, node, offset: 0, append: (options & APPEND) !== 0 });
        this.view().setUint32(out, fd, true);
        return SUCCESS;
    }

    private resize(fd: number, size: number): number {
        const node = this.open.get(fd)?.node;
        if (!node) return BADF;
        const bytes = new Uint8Array(size);
        bytes.set(node.bytes.subarray(0, Math.min(size, node.size)));
        node.bytes = bytes;
        node.size = size;
        this.files.written.add(this.open.get(fd)!.path);
        return SUCCESS;
    }

    private seek(fd: number, offset: number, whence: number, out: number): number {
        const open = this.open.get(fd);
        if (!open) return BADF;
        if (open.path === "") return 70; // ESPIPE
        const from = whence === 0 ? 0 : whence === 1 ? open.offset : open.node ? open.node.size : 0;
        if (from + offset < 0) return INVAL;
        open.offset = from + offset;
        this.view().setBigUint64(out, BigInt(open.offset), true);
        return SUCCESS;
    }

    /* -- reading and writing -- */
    /** at null: at the descriptor's offset, which moves. */
    private read(fd: number, vectors: number, count: number, at: number | null, out: number): number {
        const open = this.open.get(fd);
        if (!open) return BADF;
        if (open.path !== "" && !open.node) return ISDIR;
        const view = this.view();
        let offset = at ?? open.offset, done = 0;
        for (let i = 0; i < count && open.node; i++) {
            const length = Math.min(view.getUint32(vectors + 8 * i + 4, true), Math.max(0, open.node.size - offset));
            this.bytes(view.getUint32(vectors + 8 * i, true), length).set(open.node.bytes.subarray(offset, offset + length));
            offset += length;
            done += length;
        }
        if (at === null) open.offset = offset;
        view.setUint32(out, done, true);
        return SUCCESS;
    }

    private write(fd: number, vectors: number, count: number, out: number): number {
        const open = this.open.get(fd);
        if (!open || (open.path !== "" && !open.node)) return BADF;
        const view = this.view();
        let done = 0;
        for (let i = 0; i < count; i++) {
            const part = this.bytes(view.getUint32(vectors + 8 * i, true), view.getUint32(vectors + 8 * i + 4, true)).slice();
            if (open.node) this.append(open, open.node, part);
            else this.streams.get(fd)?.push(part);
            done += part.length;
        }
        view.setUint32(out, done, true);
        return SUCCESS;
    }

    private append(open: Open, node: Node, part: Uint8Array): void {
        const from = open.append ? node.size : open.offset, end = from + part.length;
        if (end > node.bytes.length) {
            const grown = new Uint8Array(Math.max(end, 2 * node.bytes.length));
            grown.set(node.bytes.subarray(0, node.size));
            node.bytes = grown;
        }
        node.bytes.set(part, from);
        node.size = Math.max(node.size, end);
        open.offset = end;
        this.files.written.add(open.path);
    }

    private readFolder(fd: number, at: number, length: number, cookie: number, out: number): number {
        const open = this.open.get(fd);
        if (!open) return BADF;
        if (!this.files.isFolder(open.path)) return NOTDIR;
        let used = 0;
        for (const name of this.files.names(open.path).slice(cookie)) {
            cookie++;
            const encoded = new TextEncoder().encode(name), path = join(open.path, name);
            const entry = new Uint8Array(24 + encoded.length), fields = new DataView(entry.buffer);
            fields.setBigUint64(0, BigInt(cookie), true);
            fields.setBigUint64(8, this.files.node(path)?.number ?? 0n, true);
            fields.setUint32(16, encoded.length, true);
            fields.setUint8(20, this.files.isFolder(path) ? TYPE_FOLDER : TYPE_FILE);
            entry.set(encoded, 24);
            const fits = Math.min(entry.length, length - used);
            this.bytes(at + used, fits).set(entry.subarray(0, fits));
            used += fits;
            if (used === length) break; // a cut entry tells that there are more
        }
        this.view().setUint32(out, used, true);
        return SUCCESS;
    }
}
