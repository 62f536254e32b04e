import catalogue from './hub-catalogue.json';

/** The configs of published models, by the names of their repositories on the Hugging Face Hub. */
export const HUB_CATALOGUE: Readonly<Record<string, object>> = catalogue;

/** The published models whose configs are stored here, by name. */
export const CATALOGUE_NAMES: readonly string[] = Object.keys(HUB_CATALOGUE);

/** Returns the catalogue's name of a published model that a path or an identifier names ('Qwen/Qwen3-32B'); undefined: it is not there. */
export function catalogueName(name: string): string | undefined {
  return CATALOGUE_NAMES.find((known) => bare(known) === bare(name));
}

/** Removes the owner, the first version, the training that does not change sizes, and spelling. */
function bare(name: string): string {
  return name
    .toLowerCase()
    .replace(/^.*\//, '')
    .replace(/^meta-/, '')
    .replace(/-v0\.1$/, '')
    .replace(/-(instruct|chat|base|it|hf|pt)$/, '')
    .replaceAll(/[^a-z0-9]/g, '');
}
