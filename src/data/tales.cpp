#include "data/tales.h"

#include <string_view>

#include "base/error.h"
#include "base/rng.h"

namespace gpt {
namespace {

// The text is made in memory; more than this is surely a slip of the finger.
constexpr int64_t kMaxBytes = int64_t{1} << 34;

// What keeps the grammar unambiguous (and the tests prove): within a table no word is the beginning of
// another, and the alternatives of a rule differ before either ends. Words that one sentence uses twice
// come from different tables.
constexpr std::string_view kWords = R"(
@girls he=she him=her his=her : Lily Mia Anna Rosa Nora Ella Ivy Clara Lucy Zoe Emma Ruth Tess Maya Kate June
  Ada Bea Dora Eve Gwen Hana Jill Kim
@boys he=he him=him his=his : Tom Ben Max Leo Sam Finn Jack Oscar Theo Noah Paul Amos Luke Otto Ned Hans
  Abe Bob Carl Dan Eli Fred Gil Hal
@women he=she him=her his=her : Wendy Hazel Penny Daisy Ruby Molly Bella Greta Fay Iris Opal Vera Ursa Dot Nell Pam
@men he=he him=him his=his : Hugo Felix Oliver Barney Charlie Gus Walter Basil Edgar Igor Ralph Victor Ugo Don Nat Pip
@girl : girl
@boy : boy
@animals : fox rabbit bear mouse kitten puppy duck frog lamb pony otter panda piglet goat cub colt hare newt seal calf
@helpers : owl turtle badger hen crow mole robin beaver goose donkey swan toad heron deer eagle wolf moose crab snail
  ram elk yak bee wren
@traits : little small young brave kind shy curious happy clever quiet eager gentle merry calm jolly bold sweet wild
  polite proud
@ages : old wise tall friendly round funny gray busy tired lazy odd plump thin noisy patient lame
@looks : old green quiet empty dark shady windy misty sandy rocky wide deep muddy grassy mossy steep calm busy wild
  cold dry gray high low sunny tall cool dim bare lonely hidden narrow
@places : wood river meadow hill pond garden barn mill bridge lake cave beach valley market castle harbor tower well
  field stream road fence gate oak stable church inn shed tent hut fountain willow school hedge marsh cliff path dock
  farm yard lane park ditch wall elm bay camp mine
@near : near by behind beyond beside past above below
@over : around along through across toward into
@weather : warm cold windy quiet clear foggy still rainy gray misty chilly fine mild dry bright wet
@months : May June July March April August
@times : morning*3 afternoon evening*2 day*2 night noon
@colors : red blue green yellow purple orange white black silver golden pink gray brown tan
@toys : kite drum boat lamp book flute crown map puppet doll sled mirror ribbon whistle wand mask cape horn globe
  shield watch clock rattle fiddle umbrella trumpet vest
@things : ball hat scarf bell button ring key cup spoon coin feather blanket comb marble apron needle stick shell acorn
  leaf bone nut pebble brush candle rope card nail fork stamp bead pen rag wheel jar hook pan net plate lid bow vase
  glove sock dish fan coat cap belt soap tin tray mug sponge purse bolt rake saw axe
@bits : tiny big round shiny dusty soft heavy bent old new dry wet thin flat long odd dark pale neat torn rough clean
  sharp warm cold hard light tall low sticky furry lumpy plain spare cheap grand smooth empty ugly rusty
@inside : jug chest pot boot nest box tub basket drawer jar trunk bag pail barrel sack can crate bin oven
@under : bench ladder log table bush stone mat pile rug tree cart door bed chair stool plank roof sheet fern rock
@numbers : two three four five six seven eight nine
@foods : apples carrots plums pears cakes muffins nuts berries cherries beans grapes peaches pickles buns figs rolls
  tarts pies limes eggs dates beets leeks peas
@stuff : sticks ropes stones boards nails leaves bricks shells twigs logs pins rags poles sheets corks reeds tiles
  hoops bolts wires
@paste : mud straw wax glue clay moss string wool paint paper tar sand hay
@went : walked ran hopped skipped hurried marched raced crept danced rushed strode rode slid crawled dashed limped
  jogged trotted
@how : slowly softly quickly gently bravely quietly loudly kindly calmly gladly proudly warmly sadly boldly shyly
  neatly wildly lightly idly briskly oddly firmly
@sad : sad worried upset scared gloomy glum afraid cross
@weak : lonely cold hungry weak tired sore dizzy wet
@glad : happy proud merry calm pleased thankful
@safe : warm safe strong brave free rested
@said : said whispered cried called sighed
@told : replied answered shouted mumbled muttered nodded
@fun : danced sang played laughed talked rested ate sat
@also : whistled hummed painted fished slept read cooked climbed
@sounds : thunder whispers footsteps music drums howling knocking bells
@hobbies : sing dance paint fish bake climb swim read draw run
@games : dig sew whistle hum cook jump hide ride skate nap
@builds : house raft wagon tower swing bridge boat nest ladder kite tent sled mill gate
@flaws : wobbled cracked leaned sank squeaked tipped shook burst
@storms : rain snow hail wind fog
@then : Then Soon Next Later Suddenly
@looked : looked searched peeked peered dug felt
@found : found saw noticed spotted
@kept : kept had held hid stored
@lay : lay sat stood rested
@pulled : pulled took dug drew fished lifted
@began : began planned started built
@lost : lost dropped left forgot
@gave : gave offered handed lent
@moved : move shake roll slide glow spin jump
@fell : fell sank rolled tumbled slid
@got : took fetched grabbed brought picked
@hurt : hurt ached itched froze
@parts : nose ear back head foot side neck chin
)";

constexpr std::string_view kRules = R"(
=story
1 {opening}\nOne {weather} {date}, {plot}\n\n
=date
1 {time=times}
2 {months} {time=times}
=opening
3 Once there was {trait=traits.a} {who} {near} the {look=looks} {place=places}. {bag}
2 Long ago {trait=traits.a} {who} lived {near} the {look=looks} {place=places}. {bag}
4 {named} from the {look=looks} {place=places}. {bag}
=who
1 {kind=girl} named {hero=girls}
1 {kind=boy} named {hero=boys}
4 {kind=animals} named {name}
=name
1 {hero=girls}
1 {hero=boys}
=named
1 {hero=girls} was {trait=traits.a} {girlkind}
1 {hero=boys} was {trait=traits.a} {boykind}
=girlkind
1 {kind=girl}
4 {kind=animals}
=boykind
1 {kind=boy}
4 {kind=animals}
=bag
3 In {hero.his} {bits} {inside} {hero.he} {kept} {thing}, {thing}, {numbers} {food=foods} and {color=colors.a} {toy=toys}.
2 {hero.He} had {thing}, {numbers} {food=foods} and {color=colors.a} {toy=toys}, and liked to {hobbies} and {games}.
2 {hero.His} {color=colors} {toy=toys} {lay} {near} {thing}, {thing} and {numbers} {bits} {food=foods}.
=thing
3 {bits.a} {things}
3 {bits.a} {colors} {things}
2 {colors.a} {things}
2 {numbers} {bits} {stuff}
=spot
4 the {looks} {places}
4 {looks.a} {places}
3 {owner} {looks} {places}
=owner
1 {women}'s
1 {men}'s
=way
3 {over} {spot}
1 first {over} {spot} and then {over} {spot}
=tone
1 .
2  {how}.
=plot
3 {hero} {lost} {lose}
3 {hero} met {meal}
2 the {storms} {storm}
2 {sounds} woke {fear}
3 {hero} {began} {build}
=pal
1 {age=ages.a} {helper=helpers} named {palname}
=palname
1 {friend=women}
1 {friend=men}
=lose
1 the {toy} {near} {spot}. {search}\n{meet} {lostask}\n{lostturn} {party} {lostmoral}
=search
3 {hero.He} {looked} under {bits.a} {under}, {near} {spot} and in {bits.a} {inside}, but {found} only {thing} and {thing}.
2 The {kind} {how} {went} {way}, but {found} only {thing}, {thing} and {thing}.
1 {hero.His} {parts} {hurt}, and {hero.he} felt {sad} and {weak}.
=meet
3 {then} {pal} {how} {went} {way} with {thing}.
2 {near.cap} {spot} {hero.he} {found} {pal} with {thing} and {thing}.
2 Under {bits.a} {under} {lay} {pal}.
=lostask
2 "Why are you {sad}?" {said} {friend}{tone} "I lost my {color} {toy}," {told} {hero}{tone}
2 "Where is my {toy}?" {said} {hero}{tone} "Let us look {near} {spot}," {told} {friend}{tone}
1 "{hero}, you look {sad} and {weak}," {said} the {helper}{tone} "My {toy} is gone," {told} {hero}{tone}
=lostturn
3 The {helper} {how} {looked} in {bits.a} {inside}, and there, under {thing} and {thing}, was the {color} {toy}!
2 They {how} {went} {way}, and {friend} {pulled} the {toy} out of {bits.a} {inside}.
2 {friend} {how} {went} {way} and {got} the {toy}, {thing} and {thing}.
=party
3 {hero} felt {glad} and {safe}, and they {fun} and {also} {near} {spot}.
3 The {kind} {gave} {friend} {numbers} {foods}, {thing} and {thing}.
2 That {time} they {fun} {near} {spot}, and {friend} {how} {also}.
=lostmoral
2 A friend is worth more than {things.a}.
2 Ask for help, and you find it.
1 So {hero} kept the {toy} in {bits.a} {inside}.
1 Never again did {hero} leave it {near} {spot}.
=meal
1 {pal} {near} {spot}. {mealask}\n{mealno}\n{mealturn} {party} {mealmoral}
=mealask
2 "I am {weak}," {said} the {helper}{tone} "May I have some of your {food}?"
2 "I {went} {over} {spot} and lost my {foods}," {said} {friend}{tone} "Will you share your {food}?"
1 {friend} {how} looked at the {food} and {said}, "Are these all for you, {hero}?"
=mealno
3 But {hero} hid the {food} in {bits.a} {inside}, {how} {went} {way} and {lost} the {color} {toy}.
2 "No, the {food} are mine," {told} {hero}, and {hero.he} {went} {way}. There {hero.he} {lost} {hero.his} {toy} in {bits.a} {inside}.
=mealturn
2 {sad.cap} and {weak}, {hero.he} {how} {went} back {way}. There {lay} the {toy}, and {hero.he} {gave} {friend} {thing} and {numbers} {food}.
2 {then} {friend} {how} {went} {way} with {hero.his} {toy} and {thing}, and {hero} shared the {food}.
1 At last {hero.he} {how} called {friend}, and they {found} the {toy} {near} {spot} and ate the {food} with {numbers} {bits} {foods}.
=mealmoral
1 Shared {food} taste best.
1 The more you give, the more you have.
1 Kind hearts are never {weak}.
1 {hero} had fewer {food}, but one more friend.
=storm
1 took the {toy} {way}. {chase}\n{meet} {stormask}\n{stormturn} {party} {stormmoral}
=chase
3 {hero} {how} {went} {way} and {fell} into {bits.a} {inside}.
2 The {kind} {how} {went} after it {way}, but {hero.he} was too {weak}.
2 {numbers.cap} {bits} {stuff}, {thing} and {thing} {lay} {near} {spot}, and {hero} hid under {bits.a} {under}.
=stormask
2 "Hold on to {bits.a} {under}!" {said} {friend}{tone} "Save my {toy}!" {told} {hero}{tone}
2 "Come into my {bits} {builds}, {hero}," {said} {friend}{tone} "Not without my {toy}," {told} the {kind}{tone}
1 "Are you {weak}?" {said} {friend}{tone} "Yes, and my {color} {toy} is gone," {told} {hero}{tone}
=stormturn
3 {friend} {how} tied {thing} to {bits.a} {under} and {pulled} out {hero}, the {toy} and {thing}.
2 They made {bits.a} {builds} of {stuff} and {paste}, and {near} {spot} they {found} {thing} and the {toy}.
2 The {helper} {how} {went} {way} and {got} the {toy}, {thing} and {numbers} {foods}.
=stormmoral
2 After the storm came a {weather} {times}.
2 Together we are strong.
1 The {toy} was {bits}, but {hero} was {safe}.
1 Now {hero} and {friend} look at the sky first.
=fear
1 {hero}. {hero.He} saw {thing} {moved} {near} {spot}. {hide}\n{meet} {fearask}\n{fearturn} {party} {fearmoral}
=hide
3 The {kind} {how} {got} {hero.his} {toy} and {thing} and hid {near} {spot}, {sad} and {weak}.
2 {sad.cap} and {weak}, {hero.he} {how} {went} {way} and lay down under {bits.a} {under}.
=fearask
2 "I hear something {near} {spot}," {said} {hero}{tone} "Take your {toy} and look," {told} {friend}{tone}
2 "Is it a monster with {colors.a} {parts}?" {said} {hero}{tone} "Let us see," {told} {friend}, "and bring your {toy}."
1 "Why do you hide, {trait} {kind}?" {said} {friend}{tone} "I am {sad}," {told} {hero}{tone}
=fearturn
3 {hero} {how} {went} {way} and saw that it was only {thing} on {bits.a} {under}.
2 With the {toy} {hero.he} {how} {looked} under {bits.a} {under}. There {lay} {bits.a} {animals} with {colors.a} {parts}.
2 Both {how} {went} {way}, and under {bits.a} {under} they {found} {thing}, {thing} and {thing}.
=fearmoral
2 What you know cannot scare you.
1 Even {traits.a} heart can be brave.
1 From that {time} on they called {hero.him} {hero} the Brave.
1 Fear gets small when friends are near.
=build
1 {made=builds.a} {near} {spot}. {gather}\n{meet} {buildask}\n{buildturn} {party} {buildmoral}
=gather
3 {hero.He} {got} {thing}, {thing} and {paste}, put {hero.his} {toy} on top, but the {made} {flaws} and {fell} {over} {spot}.
2 The {kind} {how} mixed {paste} with {numbers} {bits} {stuff}, but the {made} {flaws}, and {hero} felt {sad}.
=buildask
2 "What is this?" {said} {friend}{tone} "{made.A}," {told} {hero}, "but I am too {weak}."
2 "Your {made} needs {stuff} and {paste}," {said} {friend}{tone} "Then help me," {told} {hero}{tone}
1 "May I use the {color} {toy}?" {said} {friend}{tone} "Yes, for my {made}," {told} the {kind}{tone}
=buildturn
3 So they {how} {got} {thing}, {bits.a} {inside} and {bits.a} {under} {over} {spot} and built the {made} again.
2 {friend} {how} held {thing}, {hero} {got} {paste} and {thing} from {spot}, and soon the {made} stood.
=buildmoral
2 Try again, and it will stand.
1 Slow work is good work.
1 They painted the {made} {colors} and named it after {friend}.
1 The {color} {toy} still hangs on the {made}.
)";

}  // namespace

TalesText generate_tales(int64_t bytes, uint64_t seed, int64_t first_story) {
  if (bytes < 1 || bytes > kMaxBytes) {
    fail_usage("tales: expected 1 to {} bytes, found {}; make larger texts in parts", kMaxBytes, bytes);
  }
  if (first_story < 0) fail_usage("tales: expected a story number of at least 0, found {}", first_story);
  const Grammar& grammar = tales_grammar();
  const auto wanted = static_cast<size_t>(bytes);
  TalesText tales;
  tales.next_story = first_story;
  size_t last = 0;
  double last_nats = 0;
  while (tales.text.size() < wanted) {
    last = tales.text.size();
    RandomStream random(seed, RandomSite::corpus, 0, static_cast<uint64_t>(tales.next_story++));
    last_nats = grammar.sample(random, tales.text);
    tales.nats += last_nats;
  }
  if (tales.text.size() > wanted) {
    tales.text.resize(wanted);
    // Of the story that was cut only the choices before the cut count.
    tales.nats -= last_nats + grammar.score(std::string_view(tales.text).substr(last), false).log_p;
  }
  return tales;
}

double tales_entropy_per_byte() {
  const Grammar::Expectation story = tales_grammar().expectation();
  return story.nats / story.bytes;
}

const Grammar& tales_grammar() {
  static const Grammar grammar(std::string(kWords) + std::string(kRules));
  return grammar;
}

}  // namespace gpt
