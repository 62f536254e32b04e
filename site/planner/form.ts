import { CATALOGUE, PLANNED_NAMES, PUBLISHED_NAMES } from '../../src/config';
import { KNOWN_GPUS, type Layout } from '../../src/planner';
import { el } from './dom';
import { FIELD_GROUPS, FIELDS, type Field, fieldOf } from './fields';
import type { Fault } from './plan';
import type { Settings } from './settings';

/** The form with all fields. */
export interface Form {
  readonly element: HTMLElement;
  /** Shows settings; `layout` has the values of empty fields. A field in which a reader types stays as it is. */
  show(settings: Settings, layout: Layout | undefined): void;
  /** Shows faults at their fields, and returns those of no field. */
  showFaults(faults: readonly Fault[]): readonly Fault[];
}

/** On screens that are at most as wide, in pixels, only the first group of fields is open, so that the result is near. */
const NARROW = 860;

type Control = HTMLInputElement | HTMLSelectElement;

/** Makes the form; `change` is called with the field and its new text. */
export function createForm(change: (field: Field, text: string) => void): Form {
  const controls = new Map<Field, Control>();
  const marks = new Map<Field, HTMLElement>();
  const row = (field: Field): HTMLElement => {
    const id = `field-${field.path.replaceAll('.', '-')}`;
    const control = controlOf(field, id, (text) => change(field, text));
    const mark = el('p', { class: 'fault', id: `${id}-fault`, role: 'alert' });
    controls.set(field, control);
    marks.set(field, mark);
    const says = field.says === undefined ? null : el('small', { id: `${id}-says` }, field.says);
    control.setAttribute('aria-describedby', says === null ? mark.id : `${says.id} ${mark.id}`);
    return el('div', { class: 'field' }, el('label', { for: id }, field.label), control, says, mark);
  };
  const element = el(
    'form',
    { 'aria-label': 'The plan', submit: (event) => event.preventDefault() },
    ...FIELD_GROUPS.map(({ title, isOpen, fields }, i) =>
      el(
        'details',
        { open: isOpen && (i === 0 || innerWidth > NARROW) },
        el('summary', {}, title),
        el('div', { class: 'fields' }, ...fields.map(row)),
      ),
    ),
    modelList(),
    gpuList(),
  );
  return {
    element,
    show(settings, layout) {
      for (const [field, control] of controls) {
        const text = field.read(settings);
        if (control !== document.activeElement || field.kind === 'choice') control.value = text;
        const usual = layout === undefined ? undefined : field.usual?.(layout);
        if (control instanceof HTMLInputElement) control.placeholder = usual ?? '';
      }
    },
    showFaults: (faults) => shownFaults(faults, controls, marks),
  };
}

function shownFaults(
  faults: readonly Fault[],
  controls: ReadonlyMap<Field, Control>,
  marks: ReadonlyMap<Field, HTMLElement>,
): readonly Fault[] {
  for (const field of FIELDS) {
    const own = faults.filter(({ path }) => fieldOf(path) === field);
    marks.get(field)?.replaceChildren(own.map(({ message }) => message).join('; '));
    controls.get(field)?.setAttribute('aria-invalid', String(own.length > 0));
  }
  return faults.filter(({ path }) => fieldOf(path) === undefined);
}

/** Numbers and choices apply while they change; a text applies when it is complete. */
function controlOf(field: Field, id: string, change: (text: string) => void): Control {
  const listener = (event: Event): void => change((event.target as Control).value);
  if (field.choices !== undefined && field.kind === 'choice')
    return el(
      'select',
      { id, change: listener },
      ...field.choices.map(({ value, text }) => el('option', { value }, text)),
    );
  if (field.kind === 'number')
    return el('input', { id, type: 'number', min: 1, step: 'any', input: listener });
  return el('input', {
    id,
    type: 'text',
    list: field.list,
    autocomplete: 'off',
    spellcheck: 'false',
    change: listener,
  });
}

function modelList(): HTMLElement {
  const names = [...PUBLISHED_NAMES, ...PLANNED_NAMES];
  const options = names.map((value) => el('option', { value, label: CATALOGUE[value]?._name_or_path }));
  return el('datalist', { id: 'models' }, ...options);
}

function gpuList(): HTMLElement {
  const gpus = Object.values(KNOWN_GPUS);
  const options = gpus.map(({ name, memoryGB, gemmTflops, sources }) =>
    el('option', {
      value: name,
      label: `${memoryGB} GB, ${gemmTflops} TFLOP/s of matmuls (${sources.gemm ?? 'estimated'})`,
    }),
  );
  return el('datalist', { id: 'gpus' }, ...options);
}
