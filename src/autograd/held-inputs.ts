import * as tf from '@tensorflow/tfjs';
import { untracked } from '../backend/tfjs-state';
import { HostStash } from './host-stash';
import type { KeptResults } from './kept-results';
import type { RegionCall } from './region-call';
import type { Surroundings } from './surroundings';

/** What a region keeps between its two forwards. */
export class HeldInputs {
  readonly results: KeptResults | null;
  readonly #call: RegionCall;
  readonly #ids: readonly number[];
  /** Views of inputs, for callers may dispose those; but not of units' parameters, which are to be freed. */
  readonly #views: tf.Tensor[];
  /** Tensors that forward read, and that tidy scopes would dispose before backward. */
  readonly #lent: readonly tf.Tensor[];
  readonly #stash: HostStash | null;

  constructor(call: RegionCall, surroundings: Surroundings, results: KeptResults | null) {
    const { engine, region, outer, inputs } = call;
    this.#call = call;
    this.results = results;
    const kept = [...new Map(inputs.map((input) => [input.id, input])).values()].filter(
      (input) => outer.parameterNow(input.id) === undefined,
    );
    this.#ids = kept.map(({ id }) => id);
    this.#views = untracked(() => kept.map((input) => tf.keep(tf.clone(input))));
    // An input on the host cannot come back into the same tensor.
    const given = new Set(region.offload === true ? this.#ids : []);
    this.#lent = surroundings.shortLived(outer.firstScope).filter(({ id }) => !given.has(id));
    for (const tensor of this.#lent) tf.keep(tensor);
    for (const tensor of [...this.#views, ...this.#lent]) {
      if (engine.tagOf(tensor).cause === 'temp')
        engine.retag(tensor, { cause: 'activation', module: region.module });
    }
    this.#stash = region.offload === true ? new HostStash(engine) : null;
    this.#stash?.put([this.#views, ...(results?.slots ?? [])]);
  }

  /** The second forward begins: what lies on the host comes back. */
  fetch(): void {
    this.#stash?.fetch();
  }

  /** An input as it is now: a parameter in its new tensor, a view of what was disposed since. */
  now(input: tf.Tensor): tf.Tensor {
    const tensor = this.#call.outer.parameterNow(input.id) ?? input;
    return tensor.isDisposed ? (this.#views[this.#ids.indexOf(input.id)] ?? tensor) : tensor;
  }

  dispose(): void {
    tf.dispose([...this.#views, ...this.#lent]);
    this.results?.dispose();
    this.#stash?.dispose();
  }
}
