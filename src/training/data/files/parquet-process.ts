import { Worker } from 'node:worker_threads';
import { openParquet, type ParquetRows } from './parquet-reader';

/** What the process is asked: which columns of which file, once the names of columns are known, and then each part of the rows. */
export type ParquetRequest = { readonly open: string } | { readonly columns: readonly string[] } | 'next';

/** The process answers each request with one reply; without rows, there are no more. */
export interface ParquetReply {
  readonly opened?: { readonly names: readonly string[]; readonly numRows: number };
  readonly rows?: ParquetRows;
  /** Why the file cannot be read. */
  readonly failure?: string;
}

// See [Note: Parquet process] in parquet.
process.on('disconnect', () => process.exit(0));
process.on('SIGINT', () => {}); // an interrupt ends the process that reads, which ends this process
// Code that decodes a page may not return, so a thread ends the process when the parent has ended.
const WATCH =
  'const parent = process.ppid; setInterval(() => { if (process.ppid !== parent) process.kill(process.pid, "SIGKILL"); }, 500);';
new Worker(WATCH, { eval: true }).unref();

let opened: Awaited<ReturnType<typeof openParquet>> | undefined;
let rows: AsyncGenerator<ParquetRows> | undefined;

process.on('message', (request: ParquetRequest) => {
  answer(request).then(
    (reply) => process.send?.(reply),
    (error: unknown) => process.send?.({ failure: error instanceof Error ? error.message : String(error) }),
  );
});

async function answer(request: ParquetRequest): Promise<ParquetReply> {
  if (request !== 'next' && 'open' in request) {
    opened = await openParquet(request.open);
    return { opened: { names: opened.names, numRows: opened.numRows } };
  }
  if (request !== 'next') {
    rows = opened?.rows(request.columns);
    return {};
  }
  const next = await rows?.next();
  return next === undefined || next.done === true ? {} : { rows: next.value };
}
