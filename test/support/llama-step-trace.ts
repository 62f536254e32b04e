import type { Layout } from '../../src/planner/layout';
import type { AllocatedBlock } from './caching-allocator';
import { KEPT, LlamaBlock, STREAM, type Tensors } from './llama-block-trace';

/**
 * One rank's allocations in steps of a Llama under FSDP2, op by op in their order, replayed on a model of the allocator; the last step's peaks.
 * The replay does not use the planner's formulas: only sizes of tensors, and who frees them when.
 */
export function replayLlamaStep(layout: Layout, steps = 3) {
  const step = new LlamaStep(layout);
  for (let i = 0; i < steps; i++) step.run();
  const { peakReservedBytes, peakAllocatedBytes } = step.memory;
  return { reservedBytes: peakReservedBytes, allocatedBytes: peakAllocatedBytes };
}

class LlamaStep extends LlamaBlock {
  private readonly root: readonly number[];
  private hasOptimizer = false;

  constructor(layout: Layout) {
    super(layout);
    const { vocab, dim } = layout.model;
    this.root = [(vocab * dim) / layout.tp, dim, (vocab * dim) / layout.tp];
    for (const size of this.allParams()) this.take((4 * size) / layout.shards);
  }

  run(): void {
    this.memory.resetPeaks();
    const { layers } = this.layout.model;
    const { part } = this.widths;
    let gathered = this.gather(this.root);
    const root = this.whole(this.root);
    let x = this.values(2 * part);
    const kept: { input: AllocatedBlock | null; tensors: Tensors }[] = [];
    let whole: AllocatedBlock[] = [];
    for (let layer = 0; layer < layers; layer++) {
      const next = this.gather(this.block);
      this.memory.release(gathered);
      gathered = next;
      whole = this.whole(this.block);
      const { output, tensors } = this.forward(KEPT[this.mode][this.layout.recompute]);
      // The operations of an uncompiled norm store a copy of its input, not the input.
      const keepsInput = this.layout.recompute !== 'none' || this.layout.compile;
      kept.push({ input: keepsInput ? x : null, tensors });
      if (!keepsInput) this.memory.release(x);
      x = output;
      if (layer < layers - 1) this.releaseAll(whole);
    }
    this.memory.release(gathered);
    const { gradient, head } = this.loss(x);
    const grads = this.backward(gradient, kept, whole);
    this.end(root, head, grads);
  }

  private *allParams(): Generator<number> {
    for (let layer = 0; layer < this.layout.model.layers; layer++) yield* this.block;
    yield* this.root;
  }

  private loss(x: AllocatedBlock): { gradient: AllocatedBlock; head: AllocatedBlock } {
    const { dim, part, logits } = this.widths;
    const saved = [this.values(4 * part), this.values(2 * part), this.values(2 * dim)];
    this.memory.release(x);
    const scores = this.values(2 * logits);
    let back: AllocatedBlock;
    if (this.layout.compileLoss) {
      back = this.values(2 * logits);
      this.memory.release(scores);
    } else {
      back = this.eagerLoss(scores, logits);
    }
    const gradient = this.values(2 * dim);
    const head = this.take(2 * (this.root[2] ?? 0));
    this.memory.release(back);
    this.releaseAll(saved);
    return { gradient, head };
  }

  private eagerLoss(scores: AllocatedBlock, logits: number): AllocatedBlock {
    const copy = this.values(4 * logits);
    const isSplit = this.layout.tp > 1;
    const shifted = isSplit ? [this.values(4 * logits), this.values(4 * logits)] : [];
    this.releaseAll(shifted.slice(1));
    const logProbabilities = this.values(4 * logits);
    this.releaseAll([copy, scores, ...shifted.slice(0, 1)]);
    const one = this.values(4 * logits);
    const two = this.values(4 * logits);
    if (isSplit) {
      const three = this.values(4 * logits);
      this.memory.release(three);
    }
    this.releaseAll([one, logProbabilities]);
    const back = this.values(2 * logits);
    this.memory.release(two);
    return back;
  }

  private backward(
    gradient: AllocatedBlock,
    kept: { input: AllocatedBlock | null; tensors: Tensors }[],
    lastWhole: AllocatedBlock[],
  ): AllocatedBlock[] {
    const shards: AllocatedBlock[] = [];
    let [whole, back] = [lastWhole, gradient];
    let ahead: AllocatedBlock | null = null;
    let reducing: AllocatedBlock | null = null;
    const blockSize = this.block.reduce((sum, size) => sum + size, 0);
    for (let layer = kept.length - 1; layer >= 0; layer--) {
      if (ahead !== null) {
        whole = this.whole(this.block);
        this.memory.release(ahead);
      }
      ahead = layer > 0 ? this.gather(this.block) : null;
      const { input, tensors } = kept[layer] ?? { input: null, tensors: new Map() };
      const { grads, output } = this.blockBackward(tensors, back);
      back = output;
      if (input !== null) this.memory.release(input);
      this.releaseAll(whole);
      if (reducing !== null) this.memory.release(reducing);
      reducing = this.take(4 * blockSize);
      this.releaseAll(grads);
      shards.push(this.take((4 * blockSize) / this.layout.shards, STREAM.reduce));
    }
    if (reducing !== null) this.memory.release(reducing);
    this.memory.release(back);
    return shards;
  }

  /** The root's reduction, then the optimizer, whose states are allocated in the first step. */
  private end(root: AllocatedBlock[], head: AllocatedBlock, grads: AllocatedBlock[]): void {
    const { shards } = this.layout;
    // A partial sum with the rows of the whole vocabulary: see [Note: FSDP2's units].
    const embedding = this.take(2 * (this.root[0] ?? 0) * this.layout.tp);
    this.releaseAll(root);
    const size = this.root.reduce((sum, each) => sum + each, 0);
    const reducing = this.take(4 * size);
    this.releaseAll([embedding, head]);
    const last = this.take((4 * size) / shards, STREAM.reduce);
    this.memory.release(reducing);
    if (!this.hasOptimizer) {
      for (const each of this.allParams()) for (let i = 0; i < 2; i++) this.take((4 * each) / shards);
      this.hasOptimizer = true;
    }
    const roots = [...this.allParams()].map((each) => this.take((4 * each) / shards));
    this.releaseAll([...roots, last, ...grads]);
  }
}
