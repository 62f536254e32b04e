import { ShardlabError } from '../../core';

/** A trap of a kernel. Before the trap, the kernel may have overwritten any values. */
export interface HeapDamage {
  readonly kernel: string;
  readonly trap: string;
  /** The module in whose forward or backward the kernel ran; '' outside of all modules. */
  readonly module: string;
  /** The cell and line, if they are known; else ''. */
  readonly place: string;
}

/** The state of an engine's heap. After a trap, every operation and every read of values is an error. */
export class HeapHealth {
  #damage: HeapDamage | undefined;
  /** Messages that C++ code printed since the last check: a kernel that cannot write its output prints the reason. */
  readonly complaints: string[];
  readonly #place: () => string;

  constructor(complaints: string[] = [], place: () => string = () => '') {
    this.complaints = complaints;
    this.#place = place;
  }

  get damage(): HeapDamage | undefined {
    return this.#damage;
  }

  /** Checks that no kernel has trapped. Throws: ENGINE. */
  requireSound(): void {
    if (this.#damage !== undefined) throw damaged(this.#damage);
  }

  /** Records a trap and returns the error to throw; after several traps, the error describes the first. */
  trapped(kernel: string, module: string, trap: WebAssembly.RuntimeError): ShardlabError {
    this.#damage ??= { kernel, trap: trap.message, module, place: this.#place() };
    return damaged(this.#damage, trap);
  }
}

function damaged(damage: HeapDamage, cause?: unknown): ShardlabError {
  return new ShardlabError(
    'ENGINE',
    `the engine's heap is damaged: ${describeDamage(damage)}. Its values may be wrong, so no operation runs on ` +
      'it. Start the rank again: await job.shutdown(), then sl.launch; outside of a job, start another engine.',
    { cause, details: { damage } },
  );
}

/** Returns a text like "the wasm kernel Conv2D trapped in module blocks.0, cell 3, line 2: unreachable". */
export function describeDamage({ kernel, trap, module, place }: HeapDamage): string {
  const where = [module && `module ${module}`, place].filter((part) => part !== '').join(', ');
  return `the wasm kernel ${kernel} trapped${where === '' ? '' : ` in ${where}`}: ${trap}`;
}
