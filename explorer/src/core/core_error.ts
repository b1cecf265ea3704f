/** What the core or a command says is wrong; `message` is its text. */
export class CoreError extends Error {}
