/** The most stored signatures of messages. Source: jupyter_client, Session.digest_history_size */
const MOST_SIGNATURES = 2 ** 16;

/** Stores the signatures of messages, so that a repeated message does not count again. */
export class SeenSignatures {
  // In order of arrival.
  readonly #seen = new Set<string>();
  readonly #most: number;

  constructor(most = MOST_SIGNATURES) {
    this.#most = most;
  }

  /** Adds a signature; false if it is already there. */
  note(signature: string): boolean {
    if (this.#seen.has(signature)) return false;
    this.#seen.add(signature);
    if (this.#seen.size > this.#most) this.#cull();
    return true;
  }

  /** Forgets a tenth, as jupyter_client does; the oldest ones, while jupyter_client drops any. */
  #cull(): void {
    let left = Math.max(1, Math.floor(this.#seen.size / 10));
    for (const signature of this.#seen) {
      if (left-- === 0) return;
      this.#seen.delete(signature);
    }
  }
}
