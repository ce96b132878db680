// Writes text with a LLaMA model in C++: one text as it comes, and two together from one prompt.
//
//   generate MODEL [PROMPT]
#include <iostream>
#include <stdexcept>

#include "ironbridge.hpp"

int main(int count, char **arguments) try {
  if (count < 2 || count > 3) {
    std::cerr << "usage: generate MODEL [PROMPT]\n";
    return 2;
  }
  const std::string_view text = count > 2 ? arguments[2] : "Ownership is";
  const iron::Device device;
  const iron::Model model(device, arguments[1]);
  iron_session_options shape{};
  shape.sequences = 2;
  iron::Session session(model, shape);
  const auto prompt = model.encode_prompt(text);

  std::cout << text;
  session.generate(prompt, iron::Options().limit(16).stop(" that"), [](const iron_piece &piece) {
    std::cout << std::string_view(piece.text, piece.text_length) << std::flush;
    return true;
  });
  std::cout << "\n";

  // What a function of the caller's throws ends the text and comes out here.
  session.rewind(0);
  try {
    session.generate(prompt, iron::Options().limit(16), [](const iron_piece &) -> bool {
      throw std::runtime_error("the reader has left");
    });
  } catch (const std::runtime_error &left) {
    std::cout << left.what() << "\n";
  }

  // Two texts in one pass each, from one prompt that is computed once.
  session.rewind(0);
  session.feed({prompt.begin(), prompt.end() - 1});
  session.copy(0, 1);
  iron_sampler_options lively{};
  lively.temperature = 1;
  lively.seed = 3;
  const iron::Writer writers[] = {{model, prompt, iron::Options().limit(6)},
                                  {model, prompt, iron::Options().limit(6).sampler(lively)}};
  std::string texts[2];
  std::uint32_t next[2] = {prompt.back(), prompt.back()};
  std::vector<iron_feed> work(2);
  for (std::uint32_t index = 0; index < 2; index++) {
    work[index].sequence = index;
    work[index].tokens = &next[index];
    work[index].count = 1;
  }
  while (!work.empty()) {
    std::vector<iron_feed> open;
    session.feed_batch(work);
    for (const iron_feed &fed : work) {
      const iron_piece piece = session.write(writers[fed.sequence], fed.sequence);
      texts[fed.sequence].append(piece.text, piece.text_length);
      next[fed.sequence] = piece.token;
      if (piece.stop == IRON_STOP_NONE) open.push_back(fed);
    }
    work = open;
  }
  std::cout << text << texts[0] << "\n" << text << texts[1] << "\n";
} catch (const iron::Error &error) {
  std::cerr << error.name() << ": " << error.what() << "\n";
  return 1;
}
