/** Lets calls on the same rank run one after the other, in the order in which they came. */
export class RankLocks {
  readonly #last = new Map<number, Promise<void>>();

  /** Waits until all `ranks` are free and takes them; the function that comes back frees them. */
  async acquire(ranks: readonly number[]): Promise<() => void> {
    const before = ranks.map((rank) => this.#last.get(rank));
    let release = (): void => undefined;
    const freed = new Promise<void>((resolve) => {
      release = resolve;
    });
    // Taken at once for all ranks, so two calls can never hold one rank each and wait for the other's.
    for (const rank of ranks) this.#last.set(rank, freed);
    await Promise.all(before);
    return release;
  }
}
