import { errorsOf, FRAGMENTS, type Fragment, type Trial } from '../../config/fragments';
import { findFragment, fragmentText } from '../../config/lookup';
import { type Shown, shownAsText, withShown } from '../../figures/shown';
import { createTable, type Table } from '../../figures/table';

/**
 * Returns a table with a row per name that the documents use: the error of the documents' code with this name on the original
 * libraries, and whether shardlab has the name.
 */
export function lookup(): Table;
/**
 * Returns the meaning of a name or setting of the documents in its original framework, and its status in shardlab: 'here', an
 * 'error', 'not here yet', or 'never existed'. Shown as text with an example. Throws: CONFIG for a word that no document uses.
 */
export function lookup(name: string): Fragment & Shown;
export function lookup(name?: string): Table | (Fragment & Shown) {
  if (name === undefined) return allFragments();
  const fragment = findFragment(name);
  return withShown({ ...fragment }, shownAsText(fragmentText(fragment)));
}

function allFragments(): Table {
  const rows = FRAGMENTS.map(({ name, document, tried, status, here }) => ({
    name,
    document,
    original: originalText(tried),
    status,
    here,
  }));
  return createTable(rows, { title: `${rows.length} pieces of code` });
}

function originalText(tried: readonly Trial[]): string {
  if (tried.length === 0) return 'not tried';
  const errors = [...new Set(tried.flatMap(errorsOf))];
  if (errors.length > 0) return errors.join(', ');
  return tried.every(({ outcome }) => outcome === 'runs') ? 'runs' : 'see its lookup';
}
