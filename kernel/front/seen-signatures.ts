/** Signatures of a client's messages that are remembered. Source: jupyter_client, Session.digest_history_size */
const MOST_SIGNATURES = 2 ** 16;

/** Remembers the signatures of messages, so that one that somebody sends again does not count again. */
export class SeenSignatures {
  // In the order in which they came.
  readonly #seen = new Set<string>();
  readonly #most: number;

  constructor(most = MOST_SIGNATURES) {
    this.#most = most;
  }

  /** Notes a signature; false when it was there. */
  note(signature: string): boolean {
    if (this.#seen.has(signature)) return false;
    this.#seen.add(signature);
    if (this.#seen.size > this.#most) this.#cull();
    return true;
  }

  /** Forgets a tenth, as jupyter_client does; the oldest, where that takes any. */
  #cull(): void {
    let left = Math.max(1, Math.floor(this.#seen.size / 10));
    for (const signature of this.#seen) {
      if (left-- === 0) return;
      this.#seen.delete(signature);
    }
  }
}
