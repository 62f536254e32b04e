/** Runs calls on the same rank one after the other, in order of arrival. */
export class RankLocks {
  readonly #last = new Map<number, Promise<void>>();

  /** Waits until all `ranks` are free and takes them; the returned function frees them. */
  async acquire(ranks: readonly number[]): Promise<() => void> {
    const before = ranks.map((rank) => this.#last.get(rank));
    let release = (): void => undefined;
    const freed = new Promise<void>((resolve) => {
      release = resolve;
    });
    // All ranks are taken at once, so two calls can never each hold a rank that the other waits for.
    for (const rank of ranks) this.#last.set(rank, freed);
    await Promise.all(before);
    return release;
  }
}
