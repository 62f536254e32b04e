import DefaultTheme from 'vitepress/theme';
import { h } from 'vue';
import KeyFilter from './KeyFilter.vue';
import './style.css';

/** The default theme, with a field that filters the rows of pages of tables. */
export default {
  extends: DefaultTheme,
  Layout: () => h(DefaultTheme.Layout, null, { 'doc-before': () => h(KeyFilter) }),
};
