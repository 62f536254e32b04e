import { alias, ShardlabError } from '../../core';
import * as tf from '../../core/tf';
import type { Engine } from '../backend/engine';
import { type TapeNode, tfjsState, untracked, watchHostReads } from '../backend/tfjs-state';

interface Kept {
  readonly kernelName: string;
  /** The stored results; empty if no operation needs them. */
  readonly outputs: tf.Tensor[];
  /** The buffers of the outputs. */
  readonly buffers: readonly object[];
  readonly shapes: readonly number[][];
  /** The sum of squares of the operation's inputs. */
  readonly sumOfSquares: number;
}

/**
 * The results of a region's chosen kernels. The first forward stores them; the second forward gets them in the order of
 * the calls, and does not run these kernels. Source: torch's create_selective_checkpoint_contexts.
 *
 * [Note: results that nobody reads] Only an addition reads the result of a block's last matmul, and the gradient of an addition
 * does not need values, so it would be useless to store this result. Such results are released at the end of the first forward.
 * In the second forward, they are NaN, and so are all values that are computed from them. The results of the two forwards then
 * cannot be compared; instead, the inputs of the chosen kernels are compared.
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

  /** The stored tensors; the caller may replace entries by tensors that have the same values. */
  get slots(): readonly tf.Tensor[][] {
    return this.#kept.map(({ outputs }) => outputs);
  }

  /**
   * Stores an operation's outputs if the operation's kernel is chosen. `saved`: the tensors whose values the operation's
   * gradient reads.
   */
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
      const view = untracked(() => tf.keep(alias(output)));
      kept.outputs.push(view);
      if (this.#engine.tagOf(view).cause === 'temp')
        this.#engine.retag(view, { cause: 'activation', module });
    }
  }

  /** Whether the two forwards must have equal results. See [Note: results that nobody reads]. */
  get isValueRead(): boolean {
    return this.#isValueRead;
  }

  /** Ends the first forward: releases the tensors that no operation will read. `values` are the forward's results. */
  settle(values: readonly tf.Tensor[]): void {
    this.#endWatch();
    const needed = this.#reads.needed();
    for (const { outputs, buffers } of this.#kept) {
      if (buffers.some((buffer) => needed.has(buffer))) continue;
      tf.dispose(outputs.splice(0));
      this.#isValueRead = values.every(({ dataId }) => needed.has(dataId));
    }
  }

  /**
   * Returns, in the second forward, the stored outputs of a kernel's next call, and records the call. Throws: ENGINE if the
   * first forward called another kernel here, or if the kernel's inputs differ.
   */
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
        `The second forward of a checkpointed module called ${kernelName}, but at this point its first forward called ` +
          `${kept?.kernelName ?? 'nothing more'}. A module must call the same operations in both forwards.`,
      );
    }
    this.#requireSameInputs(kept, inputs);
    const outputs = inKernel(() =>
      kept.shapes.map((shape, i) => {
        const output = kept.outputs[i];
        return output === undefined ? tf.fill(shape, Number.NaN) : alias(output);
      }),
    );
    tf.dispose(kept.outputs);
    tfjsState().activeTape.push(nodeOf(kernelName, inputs, outputs, attrs ?? {}));
    return outputs.length === 1 ? outputs[0] : outputs;
  };

  /**
   * Must be called when the second forward ends. Throws: ENGINE if the second forward called fewer chosen kernels than the
   * first forward.
   */
  requireAllGiven(): void {
    const missing = this.#kept[this.#next];
    if (missing === undefined) return;
    throw new ShardlabError(
      'ENGINE',
      `The second forward of a checkpointed module ended before ${missing.kernelName}, which its first forward called. ` +
        'A module must call the same operations in both forwards.',
    );
  }

  dispose(): void {
    this.#endWatch();
    for (const { outputs } of this.#kept) tf.dispose(outputs);
  }

  #requireSameInputs({ kernelName, sumOfSquares }: Kept, inputs: tf.NamedTensorMap): void {
    const sum = this.#sumOfSquares(Object.values(inputs));
    // A sum is also NaN if it is computed from a result that nobody reads.
    if (sum === sumOfSquares || Number.isNaN(sum) || Number.isNaN(sumOfSquares)) return;
    throw new ShardlabError(
      'ENGINE',
      `The second forward of a checkpointed module called ${kernelName} with inputs whose sum of squares is ${sum}, but in the ` +
        `first forward this sum was ${sumOfSquares}. A checkpointed module must compute the same values in both forwards: ` +
        'give its random operations a seed, and do not let it change state.',
    );
  }

  #sumOfSquares(inputs: readonly (tf.Tensor | null | undefined)[]): number {
    return inputs.reduce(
      (sum, input) => sum + (input?.dtype === 'float32' ? this.#engine.sumOfSquares(input) : 0),
      0,
    );
  }
}

/** Runs `work` without recording, in the same way as tfjs runs a kernel. */
function inKernel<T>(work: () => T): T {
  const state = tfjsState();
  state.kernelDepth++;
  try {
    return work();
  } finally {
    state.kernelDepth--;
  }
}

/**
 * Makes the same tape node as tfjs would make for an operation. Source: tfjs-core 4.22, Engine.getTensorsForGradient and
 * addTapeNode.
 */
function nodeOf(
  kernelName: string,
  inputs: tf.NamedTensorMap,
  outputs: tf.Tensor[],
  attrs: tf.NamedAttrMap,
): TapeNode {
  const node: TapeNode = { id: tfjsState().nextTapeNodeId++, kernelName, inputs, outputs };
  // tfjs returns undefined for a kernel without a gradient, but the types of tfjs do not say so.
  const config = tf.getGradient(kernelName) as tf.GradConfig | undefined;
  if (config === undefined) return node;
  const { inputsToSave = [], outputsToSave = [], saveAllInputs, gradFunc } = config;
  const names = saveAllInputs === true ? Object.keys(inputs) : inputsToSave;
  const used = [
    ...names.flatMap((name) => inputs[name] ?? []),
    ...outputs.filter((_, i) => outputsToSave[i]),
  ];
  const saved = inKernel(() => used.map((tensor) => tf.keep(alias(tensor))));
  node.saved = saved;
  node.gradient = (dys) => {
    // tfjs passes null for an unused output, but the types of tfjs do not say so.
    const whole = (dys as (tf.Tensor | null)[]).map((dy, i) => dy ?? tf.zerosLike(outputs[i] as tf.Tensor));
    return gradFunc(whole.length > 1 ? whole : (whole[0] as tf.Tensor), saved, attrs);
  };
  return node;
}

interface Operation {
  readonly inputs: readonly object[];
  readonly outputs: readonly object[];
  readonly saved: readonly object[];
  readonly runsAgain: boolean;
}

/**
 * Finds the values of a region's first forward that are needed again: values that gradients read, inputs of operations
 * that recompute such values, and values that model code read (dataSync). Values are identified by their buffers, because
 * views share buffers.
 */
class Reads {
  readonly #operations: Operation[] = [];
  readonly #byCode = new Set<object>();

  /** `saved`: the saved tensors whose values the operation's gradient reads. */
  note(node: TapeNode, inputs: readonly tf.Tensor[], saved: readonly tf.Tensor[], runsAgain: boolean): void {
    const { kernelName, outputs } = node;
    // tfjs returns undefined if a kernel has no gradient, such as tf.customGrad, whose gradient may read any tensor.
    const isKnown = (tf.getGradient(kernelName) as tf.GradConfig | undefined) !== undefined;
    this.#operations.push({
      inputs: buffersOf(inputs),
      outputs: buffersOf(outputs),
      saved: buffersOf(isKnown ? saved : [...inputs, ...outputs]),
      runsAgain,
    });
  }

  /** Notes that model code read a buffer. */
  noteByCode(buffer: object): void {
    this.#byCode.add(buffer);
  }

  needed(): ReadonlySet<object> {
    const needed = new Set(this.#byCode);
    for (const { inputs, outputs, saved, runsAgain } of this.#operations.toReversed()) {
      for (const buffer of saved) needed.add(buffer);
      if (!runsAgain || !outputs.some((buffer) => needed.has(buffer))) continue;
      for (const buffer of inputs) needed.add(buffer);
    }
    return needed;
  }
}

function buffersOf(tensors: readonly tf.Tensor[]): object[] {
  return tensors.map(({ dataId }) => dataId);
}
