// Tabs of ranks in a page. tabs.ts puts this code into the output of a cell; without it, the output shows all ranks below each other.

/** Makes tabs of the outputs with this id in the page that no script has made yet. */
export function startTabs(id) {
  for (const element of document.querySelectorAll(`[data-shardlab-tabs="${id}"]:not([data-started])`)) {
    element.setAttribute('data-started', '');
    makeTabs(element);
  }
}

let numMade = 0;

/** JupyterLab shall leave keys to a tab that has the focus, except with Control, Alt or Meta. Its own listener is on the document. */
function leaveKeys({ target, ctrlKey, altKey, metaKey }) {
  if (target.matches?.('[data-shardlab-tabs] > * > [role=tab]') !== true) return;
  target.toggleAttribute('data-lm-suppress-shortcuts', !(ctrlKey || altKey || metaKey));
}
addEventListener('keydown', leaveKeys, true);

function makeTabs(element) {
  const panels = [...element.querySelectorAll(':scope > section')];
  const list = document.createElement('div');
  list.setAttribute('role', 'tablist');
  list.setAttribute('aria-label', 'ranks');
  const name = `shardlab-tabs-${Date.now()}-${numMade++}`;
  const tabs = panels.map((panel, i) => {
    const title = panel.querySelector(':scope > .title');
    const tab = document.createElement('button');
    Object.assign(tab, { type: 'button', id: `${name}-${i}`, textContent: title.textContent });
    tab.setAttribute('role', 'tab');
    tab.setAttribute('aria-controls', `${name}-${i}-panel`);
    panel.id = `${name}-${i}-panel`;
    panel.setAttribute('role', 'tabpanel');
    panel.setAttribute('aria-labelledby', tab.id);
    panel.tabIndex = 0;
    title.hidden = true;
    tab.addEventListener('click', () => choose(i));
    return tab;
  });
  const choose = (chosen) => {
    tabs.forEach((tab, i) => {
      tab.setAttribute('aria-selected', `${i === chosen}`);
      tab.tabIndex = i === chosen ? 0 : -1;
      panels[i].hidden = i !== chosen;
    });
  };
  list.addEventListener('keydown', (event) => {
    const at = tabs.indexOf(event.target);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (at < 0 || to === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    const chosen = (to + tabs.length) % tabs.length;
    choose(chosen);
    tabs[chosen].focus();
  });
  list.append(...tabs);
  element.prepend(list);
  choose(0);
}
