import type { Engine } from '../backend/engine';
import { watchHostReads } from '../backend/host-reads';
import { type TapeNode, tfjsState, untracked } from '../backend/tfjs-state';
import { ShardlabError } from '../core/errors';
import * as tf from '../core/tf';
import { Reads } from './reads';

interface Kept {
  readonly kernelName: string;
  /** Empty once it is known that nobody needs them. */
  readonly outputs: tf.Tensor[];
  /** Of the outputs. */
  readonly buffers: readonly object[];
  readonly shapes: readonly number[][];
  /** Of the values that the operation read. */
  readonly sumOfSquares: number;
}

/**
 * Results of a region's chosen kernels: kept in its first forward, given back in the order of their calls in its second,
 * where those kernels do not run. Source: torch's create_selective_checkpoint_contexts.
 *
 * [Note: results that nobody reads] A block's last product is read by the addition behind it, whose sum no gradient in the
 * block reads: keeping it would be of no use. Such results are let go at the end of the first forward; the second gets NaN
 * in their place, and so does all that is computed from them. The region's own result may then not be compared; what the
 * chosen kernels read is.
 */
export class KeptResults {
  readonly #engine: Engine;
  readonly #kernels: ReadonlySet<string>;
  readonly #kept: Kept[] = [];
  readonly #reads = new Reads();
  #endWatch: () => void;
  #isValueRead = true;
  #next = 0;

  constructor(engine: Engine, kernels: ReadonlySet<string>) {
    this.#engine = engine;
    this.#kernels = kernels;
    this.#endWatch = watchHostReads((buffer) => this.#reads.noteByCode(buffer));
  }

  /** What is kept now; entries may be replaced by tensors of the same values. */
  get slots(): readonly tf.Tensor[][] {
    return this.#kept.map(({ outputs }) => outputs);
  }

  /** Keeps an operation's outputs if they are to be. `saved`: tensors of which its gradient reads the values. */
  note(node: TapeNode, inputs: readonly tf.Tensor[], saved: readonly tf.Tensor[]): void {
    const { kernelName, outputs } = node;
    const isKept = this.#kernels.has(kernelName);
    this.#reads.note(node, inputs, saved, !isKept);
    if (!isKept) return;
    const { module } = this.#engine.currentTag;
    const kept: Kept = {
      kernelName,
      outputs: [],
      buffers: outputs.map(({ dataId }) => dataId),
      shapes: outputs.map(({ shape }) => shape),
      sumOfSquares: this.#sumOfSquares(inputs),
    };
    this.#kept.push(kept);
    for (const output of outputs) {
      const view = untracked(() => tf.keep(tf.clone(output)));
      kept.outputs.push(view);
      if (this.#engine.tagOf(view).cause === 'temp')
        this.#engine.retag(view, { cause: 'activation', module });
    }
  }

  /** Whether the second forward must give the first one's result. [Note: results that nobody reads] */
  get isValueRead(): boolean {
    return this.#isValueRead;
  }

  /** The first forward is over, with this result: lets go of what nobody will read. */
  settle(value: tf.Tensor): void {
    this.#endWatch();
    const needed = this.#reads.needed();
    for (const { outputs, buffers } of this.#kept) {
      if (buffers.some((buffer) => needed.has(buffer))) continue;
      tf.dispose(outputs.splice(0));
      this.#isValueRead = needed.has(value.dataId);
    }
  }

  /** In the second forward: the outputs of a kernel's next call, recorded as if it had run. Throws: ENGINE when it was not the next one, or reads something else. */
  readonly giveBack = (
    kernelName: string,
    inputs: tf.NamedTensorMap,
    attrs: tf.NamedAttrMap | undefined,
  ): tf.Tensor | tf.Tensor[] | undefined => {
    if (!this.#kernels.has(kernelName)) return undefined;
    const kept = this.#kept[this.#next++];
    if (kept?.kernelName !== kernelName) {
      throw new ShardlabError(
        'ENGINE',
        `The second forward of a checkpointed module called ${kernelName} where its first called ` +
          `${kept?.kernelName ?? 'nothing more'}. It must call the same operations both times.`,
      );
    }
    this.#requireSameInputs(kept, inputs);
    const outputs = inKernel(() =>
      kept.shapes.map((shape, i) => {
        const output = kept.outputs[i];
        return output === undefined ? tf.fill(shape, Number.NaN) : tf.clone(output);
      }),
    );
    tf.dispose(kept.outputs);
    tfjsState().activeTape.push(nodeOf(kernelName, inputs, outputs, attrs ?? {}));
    return outputs.length === 1 ? outputs[0] : outputs;
  };

  /** The second forward is over. Throws: ENGINE when it left some of the kernels out. */
  requireAllGiven(): void {
    const missing = this.#kept[this.#next];
    if (missing === undefined) return;
    throw new ShardlabError(
      'ENGINE',
      `The second forward of a checkpointed module ended before ${missing.kernelName}, which its first called. It must ` +
        'call the same operations both times.',
    );
  }

  dispose(): void {
    this.#endWatch();
    for (const { outputs } of this.#kept) tf.dispose(outputs);
  }

  #requireSameInputs({ kernelName, sumOfSquares }: Kept, inputs: tf.NamedTensorMap): void {
    const sum = this.#sumOfSquares(Object.values(inputs));
    // NaN also where it is computed from a result that nobody reads.
    if (sum === sumOfSquares || Number.isNaN(sum) || Number.isNaN(sumOfSquares)) return;
    throw new ShardlabError(
      'ENGINE',
      `The second forward of a checkpointed module gave ${kernelName} values with the sum of squares ${sum}, the first ` +
        `${sumOfSquares}. A checkpointed module must compute the same both times: give its random operations a seed, and ` +
        'let it change no state.',
    );
  }

  #sumOfSquares(inputs: readonly (tf.Tensor | null | undefined)[]): number {
    return inputs.reduce(
      (sum, input) => sum + (input?.dtype === 'float32' ? this.#engine.sumOfSquares(input) : 0),
      0,
    );
  }
}

/** Runs work as a kernel does: nothing is recorded. */
function inKernel<T>(work: () => T): T {
  const state = tfjsState();
  state.kernelDepth++;
  try {
    return work();
  } finally {
    state.kernelDepth--;
  }
}

/** What tfjs writes down of an operation. Source: tfjs-core 4.22, Engine.getTensorsForGradient and addTapeNode. */
function nodeOf(
  kernelName: string,
  inputs: tf.NamedTensorMap,
  outputs: tf.Tensor[],
  attrs: tf.NamedAttrMap,
): TapeNode {
  const node: TapeNode = { id: tfjsState().nextTapeNodeId++, kernelName, inputs, outputs };
  // tfjs answers undefined for a kernel without a gradient; its types do not say so.
  const config = tf.getGradient(kernelName) as tf.GradConfig | undefined;
  if (config === undefined) return node;
  const { inputsToSave = [], outputsToSave = [], saveAllInputs, gradFunc } = config;
  const names = saveAllInputs === true ? Object.keys(inputs) : inputsToSave;
  const used = [
    ...names.flatMap((name) => inputs[name] ?? []),
    ...outputs.filter((_, i) => outputsToSave[i]),
  ];
  const saved = inKernel(() => used.map((tensor) => tf.keep(tf.clone(tensor))));
  node.saved = saved;
  node.gradient = (dys) => {
    // tfjs passes null where an output was not used; its types do not say so.
    const whole = (dys as (tf.Tensor | null)[]).map((dy, i) => dy ?? tf.zerosLike(outputs[i] as tf.Tensor));
    return gradFunc(whole.length > 1 ? whole : (whole[0] as tf.Tensor), saved, attrs);
  };
  return node;
}
