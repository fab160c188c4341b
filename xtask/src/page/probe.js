// What is looked at on the page itself. Each function gives what is wrong, in words, or what is there.
({
  // What stands in the boxes, by the id of their card.
  snippets() {
    const cards = [...document.querySelectorAll('.snippet')];
    return Object.fromEntries(cards.map(box => [box.closest('article')?.id ?? 'address', box.querySelector('pre').textContent]));
  },

  unfold() {
    for (const details of document.querySelectorAll('details')) details.open = true;
  },

  // What is wider than the window, or too small to read.
  crowded() {
    const wrong = [];
    const page = document.documentElement;
    const width = page.clientWidth;
    if (page.scrollWidth > width) wrong.push(`the page is ${page.scrollWidth} px wide in a window of ${width} px`);
    for (const element of this.shown()) {
      const { left, right } = element.getBoundingClientRect();
      const scrolls = element.closest('pre') && element.tagName !== 'PRE';
      if (!scrolls && (left < 0 || right > width + 0.5)) wrong.push(`${this.name(element)} ends at ${right} px`);
      if (parseFloat(getComputedStyle(element).fontSize) < 12) wrong.push(`${this.name(element)} is too small`);
    }
    for (const button of document.querySelectorAll('button')) {
      for (const element of this.shown()) {
        if (!button.contains(element) && this.meet(button.getBoundingClientRect(), element)) {
          wrong.push(`a button lies on ${this.name(element)}`);
        }
      }
    }
    return wrong;
  },

  // Whether words of an element are seen where something else is.
  meet(place, element) {
    const words = [...element.childNodes].filter(node => node.nodeType === Node.TEXT_NODE && node.data.trim());
    const frame = (element.closest('pre') ?? document.body).getBoundingClientRect();
    return words.some(node => {
      const range = document.createRange();
      range.selectNodeContents(node);
      return [...range.getClientRects()].some(({ left, right, top, bottom }) =>
        Math.max(left, frame.left, place.left) < Math.min(right, frame.right, place.right) &&
        Math.max(top, frame.top, place.top) < Math.min(bottom, frame.bottom, place.bottom));
    });
  },

  // Words whose colour is too near to that of their background (WCAG 2.2, 1.4.3), and how many were looked at.
  pale() {
    const wrong = [];
    const elements = this.shown();
    for (const element of elements) {
      const behind = this.background(element);
      const seen = this.over(this.colour(getComputedStyle(element).color, this.opacity(element)), behind);
      const ratio = this.contrast(seen, behind);
      if (!(ratio >= 4.5)) wrong.push(`${this.name(element)}: ${ratio.toFixed(2)} to 1`);
    }
    return { wrong, count: elements.length };
  },

  // How many things can be reached with the keyboard.
  stops() {
    return document.querySelectorAll('a[href], button, summary, input, select, textarea').length;
  },

  // Where the keyboard is, and what is wrong with how that is shown (WCAG 2.2, 2.4.7 and 1.4.11).
  focused() {
    const element = document.activeElement;
    if (!element || element === document.body) return null;
    const { outlineStyle, outlineWidth, outlineColor } = getComputedStyle(element);
    const behind = this.background(element.parentElement);
    const ratio = this.contrast(this.over(this.colour(outlineColor, 1), behind), behind);
    const visible = outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2 && ratio >= 3;
    const { top, bottom } = element.getBoundingClientRect();
    const inside = bottom > 0 && top < innerHeight;
    return { name: this.name(element), tag: element.tagName, wrong: visible && inside ? null : `${outlineStyle} ${outlineWidth}, ${ratio.toFixed(2)} to 1` };
  },

  // Brings the button of a card into sight and says where it is.
  button(number) {
    const button = document.querySelectorAll('.snippet button')[number];
    button.scrollIntoView({ block: 'center', behavior: 'instant' });
    const { left, top, width, height } = button.getBoundingClientRect();
    return { x: left + width / 2, y: top + height / 2, text: button.parentElement.querySelector('pre').textContent };
  },

  // What a button says when it has done something.
  async said(number) {
    const button = document.querySelectorAll('.snippet button')[number];
    for (let turn = 0; turn < 250 && button.textContent === 'Copy'; turn += 1) await new Promise(next => setTimeout(next, 20));
    return button.textContent;
  },

  // Elements with words of their own that can be seen.
  shown() {
    const found = new Set();
    const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (words.nextNode()) {
      const element = words.currentNode.parentElement;
      if (words.currentNode.data.trim() && element.checkVisibility({ visibilityProperty: true })) found.add(element);
    }
    return [...found];
  },

  name(element) {
    return `${element.tagName.toLowerCase()} "${element.textContent.trim().slice(0, 30)}"`;
  },

  opacity(element) {
    let all = 1;
    for (let at = element; at; at = at.parentElement) all *= Number(getComputedStyle(at).opacity);
    return all;
  },

  background(element) {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const layer = this.colour(getComputedStyle(at).backgroundColor, 1);
      layers.unshift(layer);
      if (layer[3] === 1) break;
    }
    // What a browser shows behind everything.
    const bottom = matchMedia('(prefers-color-scheme: dark)').matches ? [0, 0, 0, 1] : [255, 255, 255, 1];
    return layers.reduce((below, layer) => this.over(layer, below), bottom);
  },

  // Red, green, blue, and how much of it.
  colour(text, opacity) {
    const numbers = /^rgba?\(([^)]*)\)$/.exec(text)?.[1].split(/[\s,/]+/).map(Number);
    if (!numbers || numbers.some(Number.isNaN)) throw new Error(`this colour cannot be read: ${text}`);
    return [...numbers.slice(0, 3), (numbers[3] ?? 1) * opacity];
  },

  over([red, green, blue, much], below) {
    return [...[red, green, blue].map((part, at) => part * much + below[at] * (1 - much)), 1];
  },

  contrast(one, other) {
    const light = colour => {
      const [red, green, blue] = colour.map(part => {
        const share = part / 255;
        return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
      });
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const [bright, dark] = [light(one), light(other)].sort((a, b) => b - a);
    return (bright + 0.05) / (dark + 0.05);
  },
})
