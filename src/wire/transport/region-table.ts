/**
 * [Note: released groups] Each group of ranks has a region of the job's segment. A rank releases its part of a group when the
 * program destroys the group, or when the garbage collector finds that no code of the rank can reach it (a disposed run, a
 * variable that a cell declared again). The region is free when all its members have released it: until then, a late member may
 * still read its last collective. The last member gives the pages back, so that a new group finds zeros. A rank looks for such
 * groups when it makes new ones, after it has made many, and when the segment is full.
 */

/** Offset of the table in the control block. */
const TABLE_AT = 4096;
const NUM_ENTRIES = 4096;
const ENTRY_WORDS = 3;
const [PAGE, PAGES, HELD] = [0, 1, 2];
/** Words before the entries: the pages that were ever used, and the number of entries. */
const [USED, COUNT] = [0, 1];
const HEAD_WORDS = 16;

const FREE = 0;
/** The last member has left; it still gives the pages back. A rank that joins regions holds them like this, too. */
const LEFT = 1;
/** The page of an entry whose pages belong to another entry; the entry may be used again. */
const NOWHERE = -1;

interface Region {
  readonly entry: number;
  readonly page: number;
  readonly pages: number;
}

/** The regions of a segment, in memory that all ranks share. Every method is safe while other ranks call any method. */
export class RegionTable {
  readonly #words: Int32Array;
  readonly #firstPage: number;
  readonly #numPages: number;

  /** The table is in the segment's control block; regions are in the pages from `firstPage` to the segment's end. */
  constructor(controlBuffer: SharedArrayBuffer, firstPage: number, endPage: number) {
    this.#words = new Int32Array(controlBuffer, TABLE_AT, HEAD_WORDS + NUM_ENTRIES * ENTRY_WORDS);
    this.#firstPage = firstPage;
    this.#numPages = endPage - firstPage;
  }

  /** Takes a region of `pages` zero pages for a group; returns the region's entry, or -1 if the segment is full. */
  take(pages: number, numMembers: number): number {
    const held = LEFT + numMembers;
    const again = this.#free().find((region) => region.pages === pages && this.#claim(region, held));
    if (again !== undefined) return again.entry;
    const page = this.#use(pages);
    if (page >= 0) return this.#add({ page, pages }, held);
    this.#freeRest();
    return this.#join(pages, held);
  }

  /** The first page of an entry's region. */
  pageOf(entry: number): number {
    return this.#firstPage + this.#word(entry, PAGE);
  }

  /** Releases one member's part. The last member calls `clear`, which must give the region's pages back. */
  leave(entry: number, clear: () => void): void {
    if (Atomics.sub(this.#words, at(entry, HELD), 1) > LEFT + 1) return;
    clear();
    this.#set(entry, HELD, FREE);
  }

  /** The free regions, in the order of their pages. */
  #free(): Region[] {
    const count = Math.min(Atomics.load(this.#words, COUNT), NUM_ENTRIES);
    const regions: Region[] = [];
    for (let entry = 0; entry < count; entry++) {
      const [page, pages] = [this.#word(entry, PAGE), this.#word(entry, PAGES)];
      if (pages > 0 && this.#word(entry, HELD) === FREE) regions.push({ entry, page, pages });
    }
    return regions.sort((a, b) => a.page - b.page);
  }

  /** Holds a region, if it is still the free region that `#free` has read. */
  #claim({ entry, page, pages }: Region, held: number): boolean {
    if (Atomics.compareExchange(this.#words, at(entry, HELD), FREE, LEFT) !== FREE) return false;
    const isSame = this.#word(entry, PAGE) === page && this.#word(entry, PAGES) === pages;
    this.#set(entry, HELD, isSame ? held : FREE);
    return isSame;
  }

  /** Joins free regions that are neighbours to one region of `pages` pages; returns its entry, or -1. */
  #join(pages: number, held: number): number {
    for (const row of rowsOf(this.#free())) {
      const claimed: Region[] = [];
      for (const region of row) {
        if (sumOf(claimed) >= pages || !this.#claim(region, LEFT)) break;
        claimed.push(region);
      }
      const [first, ...others] = claimed;
      const total = sumOf(claimed);
      if (first === undefined || total < pages) {
        for (const { entry } of claimed) this.#set(entry, HELD, FREE);
        continue;
      }
      for (const { entry } of others) this.#retire(entry);
      this.#set(first.entry, PAGES, pages);
      this.#set(first.entry, HELD, held);
      if (total > pages) this.#add({ page: first.page + pages, pages: total - pages }, FREE);
      return first.entry;
    }
    return -1;
  }

  #retire(entry: number): void {
    this.#set(entry, PAGES, 0);
    this.#set(entry, PAGE, NOWHERE);
    this.#set(entry, HELD, FREE);
  }

  /** Adds an entry for pages that no other entry has; -1 if no entry is left, and then the pages are lost. */
  #add({ page, pages }: Omit<Region, 'entry'>, held: number): number {
    const entry = this.#spareEntry();
    if (entry < 0) return -1;
    this.#set(entry, PAGE, page);
    this.#set(entry, PAGES, pages);
    this.#set(entry, HELD, held);
    return entry;
  }

  /** Returns an entry that this rank holds and that has no pages; -1 if all entries are in use. */
  #spareEntry(): number {
    const count = Math.min(Atomics.load(this.#words, COUNT), NUM_ENTRIES);
    for (let entry = 0; entry < count; entry++) {
      if (this.#word(entry, PAGE) !== NOWHERE) continue;
      const isRetired = this.#claim({ entry, page: NOWHERE, pages: 0 }, LEFT);
      if (isRetired) return entry;
    }
    const entry = Atomics.add(this.#words, COUNT, 1);
    if (entry >= NUM_ENTRIES) return -1;
    this.#set(entry, HELD, LEFT);
    return entry;
  }

  #word(entry: number, word: number | undefined): number {
    return Atomics.load(this.#words, at(entry, word));
  }

  #set(entry: number, word: number | undefined, value: number): void {
    Atomics.store(this.#words, at(entry, word), value);
  }

  /** Makes the pages that no region has used a free region, which can be joined with others. */
  #freeRest(): void {
    const pages = this.#numPages - Atomics.load(this.#words, USED);
    const page = pages > 0 ? this.#use(pages) : -1;
    if (page >= 0) this.#add({ page, pages }, FREE);
  }

  #use(pages: number): number {
    for (;;) {
      const used = Atomics.load(this.#words, USED);
      if (used + pages > this.#numPages) return -1;
      if (Atomics.compareExchange(this.#words, USED, used, used + pages) === used) return used;
    }
  }
}

/** Divides regions, which are in order, into rows of neighbours. */
function rowsOf(regions: readonly Region[]): Region[][] {
  const rows: Region[][] = [];
  for (const region of regions) {
    const row = rows.at(-1);
    const last = row?.at(-1);
    if (last !== undefined && last.page + last.pages === region.page) row?.push(region);
    else rows.push([region]);
  }
  return rows;
}

function sumOf(regions: readonly Region[]): number {
  return regions.reduce((sum, { pages }) => sum + pages, 0);
}

function at(entry: number, word: number | undefined): number {
  return HEAD_WORDS + entry * ENTRY_WORDS + (word ?? 0);
}
