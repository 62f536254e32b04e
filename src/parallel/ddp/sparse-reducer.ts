import type { Engine } from '../../backend/engine';
import type { HalfDType, WireDType } from '../../core/dtypes';
import type { ProcessGroup } from '../../dist/types';
import { missingEverywhere, noteOf } from '../missing-gradients';
import { joinedMasks, splitMasks, touchedRows, unionOfRows } from '../sparse/row-masks';
import { piecesOfRows } from '../sparse/row-pieces';
import type { RowTable } from '../sparse/row-tables';
import { gradOrZeros } from './gradients';

/** The parts that a sparse reduction needs. */
export interface SparseReducerOptions {
  readonly engine: Engine;
  readonly group: ProcessGroup;
  readonly tables: readonly RowTable[];
  readonly wireDType: WireDType;
  readonly declared: HalfDType | undefined;
}

/**
 * Averages gradients in which backward touched only some rows. First, one small reduction for all tables finds the rows
 * that any rank touched. Then these rows travel, directly from and into the dense gradients. Other rows are zero on
 * every rank, and so is their mean, so the result equals the dense reduction's to the bit.
 * Source: DeepSpeed's sparse_gradients, which gathers indices and values instead.
 */
export class SparseReducer {
  readonly #options: SparseReducerOptions;

  constructor(options: SparseReducerOptions) {
    this.#options = options;
  }

  /** Reduces the gradients of all tables; blocks. */
  reduce(): void {
    const { engine, group, tables, wireDType, declared } = this.#options;
    const own = tables.map(({ parameter, rows }) => touchedRows(engine, parameter.grad, rows));
    const missing = tables.map(({ parameter }) => parameter.grad === null);
    const union = splitMasks(unionOfRows(engine, group, joinedMasks(own)), own);
    const pieces = tables.flatMap(({ parameter }, i) => {
      const grad = gradOrZeros(engine, parameter, declared);
      return piecesOfRows(grad, union[i] ?? new Uint8Array(1));
    });
    const module = moduleOf(tables);
    const work =
      pieces.length === 0
        ? { agrees: false, wait: () => undefined }
        : group.allReducePieces(pieces, 'avg', { cause: 'grad', module, wireDType, note: noteOf(missing) });
    work.wait();
    const nowhere = missingEverywhere({ engine, group, module }, missing, work.agrees);
    tables.forEach(({ parameter }, place) => {
      if (nowhere[place] === true) parameter.state.zeroGrad();
    });
  }
}

/** The tables' module if they share one. */
function moduleOf(tables: readonly RowTable[]): string {
  const modules = new Set(tables.map(({ parameter }) => parameter.module));
  const [only = ''] = modules;
  return modules.size === 1 ? only : '';
}
