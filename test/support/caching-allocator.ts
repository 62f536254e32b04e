/** A block of a stream's memory, allocated or free, between its neighbours. */
export interface AllocatedBlock {
  readonly pool: string;
  size: number;
  isFree: boolean;
  previous: AllocatedBlock | null;
  next: AllocatedBlock | null;
}

const MIB = 1024 ** 2;
/** Smaller requests have their own pool. */
const SMALL = MIB;
const SMALL_STEP = 2 * MIB;
const LARGE_STEP = 20 * MIB;
const ROUNDING = 512;

/**
 * PyTorch's caching allocator with expandable segments: one segment per stream and size class, which grows at its end; the smallest free
 * block that is large enough is split, and the block at the end is used last; free neighbours are joined.
 * Source: c10/cuda/CUDACachingAllocator.cpp: round_size, get_free_block, should_split, try_merge_blocks, try_allocate_expandable_block.
 */
export class CachingAllocator {
  reservedBytes = 0;
  allocatedBytes = 0;
  peakReservedBytes = 0;
  peakAllocatedBytes = 0;
  private readonly free = new Map<string, AllocatedBlock[]>();
  private readonly ends = new Map<string, AllocatedBlock>();

  /** Starts the counts of peaks again from the current state. */
  resetPeaks(): void {
    this.peakReservedBytes = this.reservedBytes;
    this.peakAllocatedBytes = this.allocatedBytes;
  }

  allocate(bytes: number, stream = 0): AllocatedBlock {
    const size = Math.max(ROUNDING, Math.ceil(bytes / ROUNDING) * ROUNDING);
    const pool = `${stream} ${size <= SMALL ? 'small' : 'large'}`;
    const block = this.takeFree(pool, size) ?? this.grow(pool, size, size <= SMALL ? SMALL_STEP : LARGE_STEP);
    this.split(block, size);
    this.allocatedBytes += block.size;
    this.peakAllocatedBytes = Math.max(this.peakAllocatedBytes, this.allocatedBytes);
    this.peakReservedBytes = Math.max(this.peakReservedBytes, this.reservedBytes);
    return block;
  }

  release(block: AllocatedBlock): void {
    this.allocatedBytes -= block.size;
    const { previous, next } = block;
    if (previous?.isFree === true) {
      this.remove(previous);
      block.size += previous.size;
      block.previous = previous.previous;
      if (block.previous !== null) block.previous.next = block;
    }
    if (next?.isFree === true) {
      this.remove(next);
      block.size += next.size;
      block.next = next.next;
      if (block.next !== null) block.next.previous = block;
      if (this.ends.get(next.pool) === next) this.ends.set(next.pool, block);
    }
    this.put(block);
  }

  private takeFree(pool: string, size: number): AllocatedBlock | undefined {
    const blocks = this.free.get(pool) ?? [];
    const end = this.ends.get(pool);
    let place = placeOf(blocks, size);
    if (blocks[place] === end && place + 1 < blocks.length) place++;
    const block = blocks[place];
    if (block !== undefined) this.remove(block);
    return block;
  }

  private grow(pool: string, size: number, step: number): AllocatedBlock {
    const end = this.ends.get(pool);
    const isOpen = end?.isFree === true;
    const more = Math.ceil((size - (isOpen ? end.size : 0)) / step) * step;
    this.reservedBytes += more;
    if (isOpen) {
      this.remove(end);
      end.size += more;
      return end;
    }
    const block: AllocatedBlock = { pool, size: more, isFree: false, previous: end ?? null, next: null };
    if (end !== undefined) end.next = block;
    this.ends.set(pool, block);
    return block;
  }

  private split(block: AllocatedBlock, size: number): void {
    const rest = block.size - size;
    if (rest < ROUNDING) return;
    const { pool, next } = block;
    const other: AllocatedBlock = { pool, size: rest, isFree: true, previous: block, next };
    block.size = size;
    if (next !== null) next.previous = other;
    block.next = other;
    if (this.ends.get(pool) === block) this.ends.set(pool, other);
    this.put(other);
  }

  private put(block: AllocatedBlock): void {
    block.isFree = true;
    const blocks = this.free.get(block.pool) ?? [];
    blocks.splice(placeOf(blocks, block.size), 0, block);
    this.free.set(block.pool, blocks);
  }

  private remove(block: AllocatedBlock): void {
    block.isFree = false;
    const blocks = this.free.get(block.pool) ?? [];
    blocks.splice(blocks.indexOf(block, placeOf(blocks, block.size)), 1);
  }
}

/** The first block of at least that size. */
function placeOf(blocks: readonly AllocatedBlock[], size: number): number {
  let [low, high] = [0, blocks.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((blocks[middle]?.size ?? 0) < size) low = middle + 1;
    else high = middle;
  }
  return low;
}
